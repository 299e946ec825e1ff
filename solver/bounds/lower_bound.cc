#include "solver/bounds/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "solver/base/out_of_memory.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/cut_bound.h"
#include "solver/bounds/short_program_search.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// total * part / whole, rounded down; 0 where `whole` is 0. The factor covers the rounding of the
// division, so that the shares never add up to more than `total`.
int64_t ShareOf(int64_t total, int64_t part, int64_t whole) {
  if (whole == 0) return 0;
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  return static_cast<int64_t>(static_cast<double>(total) * share * (1 - 1e-15));
}

// A relaxation: a plain chain whose cut bound is at most that of every execution of `chain`. Each
// stage takes the smaller cost of its two modes. The graph-mode cost of a unit is distributed over
// its stages in proportion to their eager costs. Inside a unit, outputs and gradients are 0. The
// stages of a unit then cost at most as much as the unit in graph mode, and each of them can have
// the fate of the unit's value.
Chain CheapestChain(const Chain& chain, const ChainUnits& units) {
  Chain cheapest = chain;
  for (const Unit& unit : units) {
    if (!unit.has_graph) continue;
    const Stage fused = GraphStage(chain, unit);
    Stage eager;  // the sums of its stages
    for (int l = unit.first; l <= unit.last; ++l) {
      eager.forward_seconds += chain.stage(l).forward_seconds;
      eager.backward_seconds += chain.stage(l).backward_seconds;
      eager.saved_bytes += chain.saved_bytes(l);
    }
    const auto seconds = [](double own, double all_eager, double all_graph) {
      return all_eager > 0 ? own * std::min(1.0, all_graph / all_eager) : 0;
    };
    for (int l = unit.first; l <= unit.last; ++l) {
      Stage& stage =
          l > chain.length() ? cheapest.loss : cheapest.stages[static_cast<size_t>(l) - 1];
      stage.forward_seconds =
          seconds(stage.forward_seconds, eager.forward_seconds, fused.forward_seconds);
      stage.backward_seconds =
          seconds(stage.backward_seconds, eager.backward_seconds, fused.backward_seconds);
      stage.forward_overhead_bytes =
          std::min(stage.forward_overhead_bytes, fused.forward_overhead_bytes);
      stage.backward_overhead_bytes =
          std::min(stage.backward_overhead_bytes, fused.backward_overhead_bytes);
      if (fused.saved_bytes < eager.saved_bytes) {
        stage.saved_bytes = ShareOf(fused.saved_bytes, stage.saved_bytes, eager.saved_bytes);
      }
      const bool inside = l < unit.last;
      stage.gradient_bytes = inside ? 0 : chain.gradient_bytes(l);
      stage.output_bytes = inside ? 0 : std::min(stage.output_bytes, stage.saved_bytes);
    }
  }
  return cheapest;
}

// A chain without graph mode, input_unread stages and ways to save and a platform, every bound of
// which is one of the given two.
struct PlainProblem {
  Chain chain;
  Platform platform;
};

// A relaxation for input_unread stages: their inputs take no memory, so that they can stay where
// they would leave.
Chain WithoutUnreadInputs(Chain chain) {
  for (int l = 1; l <= chain.length(); ++l) {
    if (!chain.stage(l + 1).input_unread) continue;
    Stage& stage = chain.stages[static_cast<size_t>(l) - 1];
    stage.gradient_bytes = chain.gradient_bytes(l);
    stage.output_bytes = 0;
  }
  if (chain.stage(1).input_unread) {
    chain.input_gradient_bytes = chain.gradient_bytes(0);
    chain.input_bytes = 0;
  }
  return chain;
}

// A relaxation for stages that can be saved in several ways: each saves the least of them and takes
// the time of the quickest backward, which is the stage's own. Copies are quicker then, too.
Chain WithLeastSaved(Chain chain) {
  const auto relax = [](Stage& stage) {
    int64_t need = stage.SaveNeedBytes(0);
    for (int k = 1; k <= stage.last_option(); ++k) need = std::min(need, stage.SaveNeedBytes(k));
    for (const SaveOption& option : stage.save_options) {
      stage.saved_bytes = std::min(stage.saved_bytes, option.saved_bytes);
      stage.backward_overhead_bytes =
          std::min(stage.backward_overhead_bytes, option.backward_overhead_bytes);
    }
    stage.save_options.clear();
    stage.save_overhead_bytes = need - stage.saved_bytes;
  };
  for (Stage& stage : chain.stages) relax(stage);
  relax(chain.loss);
  return chain;
}

PlainProblem Plain(const Chain& chain, const ChainUnits& units, const Platform& platform) {
  if (chain.has_save_options()) return Plain(WithLeastSaved(chain), units, platform);
  if (!units.HasGraph()) return {WithoutUnreadInputs(chain), platform};
  // A unit in graph mode pays the latency once, its stages here several times: leave it out.
  PlainProblem plain{CheapestChain(chain, units), platform};
  plain.platform.transfer_latency_seconds = 0;
  return plain;
}

// The bounds add the same times in another order than the simulator: allow for the rounding.
double WithoutRounding(double seconds) { return seconds * (1 - kSummationError / 2); }

// The limits, raised to what the schedule takes.
Platform RaisedLimits(const Platform& platform, const Prediction& prediction) {
  Platform limits = platform;
  limits.memory_bytes = std::max(limits.memory_bytes, prediction.peak_memory_bytes);
  if (limits.host_memory_bytes > 0) {
    limits.host_memory_bytes = std::max(limits.host_memory_bytes, prediction.peak_host_bytes);
  }
  return limits;
}

void SetBound(double seconds, Prediction* prediction) {
  prediction->lower_bound_seconds = seconds;
  prediction->gap = RelativeExcess(prediction->makespan_seconds, seconds);
}

// Raises the bound to the least makespan of a short chain, where the search through all schedules
// ends. `limits` are not below what the prediction's schedule takes. A faster schedule that it
// finds is not kept: a solver that was asked by name answers with its own, and `auto` has searched
// before.
void RaiseToLeast(const Chain& chain, const Platform& limits, const std::stop_token& stop,
                  Prediction* prediction) {
  const ShortChainLimits search{.memory_bytes = limits.memory_bytes,
                                .below_seconds = prediction->makespan_seconds};
  const auto found = SearchShortProgram(chain, limits, search, stop);
  if (!found.has_value()) return;
  SetBound(std::max(prediction->lower_bound_seconds, WithoutRounding(found->seconds)), prediction);
}

void RaiseToRecurrence(const Chain& chain, const Platform& platform, BoundTime time,
                       const std::stop_token& stop, Prediction* prediction) {
  const auto [plain, limits] = Plain(chain, ChainUnits(chain), platform);
  const double seconds = RecurrenceBoundSeconds(plain, limits,
                                                {.min_seconds = prediction->lower_bound_seconds,
                                                 .max_seconds = prediction->makespan_seconds,
                                                 .time = time},
                                                stop);
  SetBound(std::max(prediction->lower_bound_seconds, WithoutRounding(seconds)), prediction);
}

}  // namespace

double LowerBoundSeconds(const Chain& chain, const ChainUnits& units, const Platform& platform) {
  const auto [plain, limits] = Plain(chain, units, platform);
  return std::max(ComputeSeconds(chain, units), WithoutRounding(CutBoundSeconds(plain, limits)));
}

double LowerBoundSeconds(const Chain& chain, const Platform& platform) {
  return LowerBoundSeconds(chain, ChainUnits(chain), platform);
}

bool MeetsBound(const Prediction& prediction) {
  return prediction.makespan_seconds <= prediction.lower_bound_seconds * (1 + kSummationError);
}

void FillBound(const Chain& chain, const ChainUnits& units, const Platform& platform,
               Prediction* prediction) {
  const Platform limits = RaisedLimits(platform, *prediction);
  SetBound(LowerBoundSeconds(chain, units, limits), prediction);
}

void RaiseBound(const Chain& chain, const Platform& platform, Prediction* prediction,
                BoundTime time, const std::stop_token& stop) {
  if (MeetsBound(*prediction)) return;
  // Without memory the bound stays as it is.
  UnlessOutOfMemory(
      [&] {
        const Platform limits = RaisedLimits(platform, *prediction);
        const bool searched = time == BoundTime::kLong && IsSearched(chain, limits);
        // With a link the search is the faster one, and without one the recurrence.
        if (searched && limits.has_link()) RaiseToLeast(chain, limits, stop, prediction);
        if (!MeetsBound(*prediction)) RaiseToRecurrence(chain, limits, time, stop, prediction);
        if (!searched || limits.has_link() || MeetsBound(*prediction)) return;
        RaiseToLeast(chain, limits, stop, prediction);
      },
      [] {});
}

void SetBoundToMakespan(Prediction* prediction) {
  SetBound(WithoutRounding(prediction->makespan_seconds), prediction);
}

absl::StatusOr<Simulation> SimulateWithBound(const Chain& chain, const Platform& platform,
                                             const Schedule& schedule,
                                             std::vector<TimelineEntry>* timeline) {
  const ChainUnits units(chain);
  ASSIGN_OR_RETURN(const ExecutedSchedule executed, ExecutedSchedule::Of(chain, units, schedule));
  ASSIGN_OR_RETURN(Simulation simulation, Simulate(executed, platform, timeline, /*stop=*/{}));
  FillBound(chain, units, platform, &simulation.prediction);
  return simulation;
}

}  // namespace stowage

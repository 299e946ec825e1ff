#include "solver/simulator/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "solver/model/modes.h"
#include "solver/simulator/cut_bound.h"

namespace stowage {
namespace {

// The least that value l takes when a later operation reads it: in graph mode a stage that runs
// once may save less, so only what it outputs counts.
int64_t LeastValueBytes(const Chain& chain, int l) {
  const bool saves = l > 0 && chain.stage(l).no_recompute && !chain.stage(l).graph.has_value();
  return saves ? chain.saved_bytes(l) : chain.output_bytes(l);
}

// Sums of the same times in another order differ by less.
constexpr double kSummation = 1e-12;

// What `part` of `whole` is of `total`, rounded down; all where nothing is known.
int64_t ShareOf(int64_t total, int64_t part, int64_t whole) {
  if (whole == 0) return 0;
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  return static_cast<int64_t>(static_cast<double>(total) * share * (1 - 1e-15));
}

// A plain chain on whose cuts no execution of `chain` does worse. What a unit takes in graph mode
// is dealt out to its stages as they take it in eager mode, and each stage takes the less of its
// two modes; inside a unit there are no outputs and gradients. A unit in graph mode is then as much
// as its stages together at least, and whichever fate its value has they can all have.
Chain CheapestChain(const Chain& chain) {
  Chain cheapest = chain;
  for (const Unit& unit : UnitsOf(chain)) {
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

// What running the stages of a unit needs at least in one mode; see FloorOfMemory().
MemoryFloor FloorOfStage(const Stage& stage, int l, int64_t read_bytes, int64_t gradients_bytes) {
  const int64_t values = read_bytes + stage.saved_bytes;
  const int64_t forward = values + stage.forward_overhead_bytes;
  const int64_t backward = values + gradients_bytes + stage.backward_overhead_bytes;
  return backward > forward ? MemoryFloor{backward, {OperationKind::kBackward, l}}
                            : MemoryFloor{forward, {OperationKind::kForwardSave, l}};
}

}  // namespace

double LowerBoundSeconds(const Chain& chain, const Platform& platform) {
  double seconds = 0;
  if (HasGraphMode(chain)) {
    // What a unit in graph mode moves at once may be several values here.
    Platform without_latency = platform;
    without_latency.transfer_latency_seconds = 0;
    seconds = CutBoundSeconds(CheapestChain(chain), without_latency);
  } else {
    seconds = CutBoundSeconds(chain, platform);
  }
  return std::max(chain.ComputeSeconds(), seconds * (1 - kSummation / 2));
}

double Excess(double a, double b) {
  return std::abs(a - b) > kSummation * b && b > 0 ? a / b - 1 : 0;
}

bool MeetsBound(const Prediction& prediction) {
  return prediction.makespan_seconds <= prediction.lower_bound_seconds * (1 + kSummation);
}

void FillBound(const Chain& chain, const Platform& platform, Prediction* prediction) {
  Platform limits = platform;
  limits.memory_bytes = std::max(limits.memory_bytes, prediction->peak_memory_bytes);
  if (limits.host_memory_bytes > 0) {
    limits.host_memory_bytes = std::max(limits.host_memory_bytes, prediction->peak_host_bytes);
  }
  prediction->lower_bound_seconds = LowerBoundSeconds(chain, limits);
  prediction->gap = Excess(prediction->makespan_seconds, prediction->lower_bound_seconds);
}

MemoryFloor FloorOfMemory(const Chain& chain) {
  MemoryFloor floor{-1, {}};
  for (const Unit& unit : UnitsOf(chain)) {
    MemoryFloor eager{-1, {}};
    for (int l = unit.first; l <= unit.last; ++l) {
      const MemoryFloor one = FloorOfStage(chain.stage(l), l, LeastValueBytes(chain, l - 1),
                                           chain.gradient_bytes(l) + chain.gradient_bytes(l - 1));
      if (one.bytes > eager.bytes) eager = one;
    }
    MemoryFloor least = eager;
    if (unit.has_graph) {
      MemoryFloor graph =
          FloorOfStage(GraphStage(chain, unit), unit.last, LeastValueBytes(chain, unit.first - 1),
                       chain.gradient_bytes(unit.last) + chain.gradient_bytes(unit.first - 1));
      graph.operation.mode = Mode::kGraph;
      if (unit.first != unit.last) graph.operation.first_stage = unit.first;
      if (graph.bytes < eager.bytes) least = graph;
    }
    if (least.bytes > floor.bytes) floor = least;
  }
  return floor;
}

int64_t StoreAllPeakBytes(const Chain& chain) {
  int64_t stored = chain.input_bytes;
  int64_t peak = stored;
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    stored += stage.saved_bytes;
    peak = std::max(peak, stored + stage.forward_overhead_bytes);
    // The same values are there again when the backward of stage l runs.
    peak = std::max(peak, stored + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                              stage.backward_overhead_bytes);
  }
  return peak;
}

}  // namespace stowage


#include "solver/algorithms/pofo/pofo.h"

#include <algorithm>
#include <climits>
#include <limits>
#include <utility>

#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/offload/stored_chain.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/pofo/pofo_program.h"
#include "solver/algorithms/rematerialization/leaving_minimum.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/transfers/least_plan.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// How much work a chain gets, by its length.
struct Effort {
  int steps_per_part = 0;    // PartSequences::Options::max_steps_per_part
  int width = 0;             // PofoProgram::Options::width
  int kept_points = 0;       // likewise
  int moving_points = 0;     // likewise
  int memory_shares = 0;     // how many of kMemoryShares are tried
  int max_stages = INT_MAX;  // PartSequences::Options::max_stages
};

// Chains up to this length do not prune by estimate: interpolation errs most there, and a search
// without pruning is quick.
constexpr int kLongestUnpruned = 8;

// Chosen so that a solve takes half a second at 100 stages and a few at any length.
Effort EffortFor(int stages) {
  // Columns: steps_per_part, width, kept_points, moving_points, memory_shares, max_stages.
  if (stages <= kLongestUnpruned) return {96, 128, 16, 32, 6};
  if (stages <= 60) return {96, 24, 10, 20, 3};
  if (stages <= 120) return {48, 20, 8, 15, 3};
  if (stages <= 240) return {32, 20, 8, 15, 3};
  if (stages <= 400) return {16, 20, 8, 16, 3};
  if (stages <= 1200) return {12, 8, 6, 12, 2, 160};
  return {8, 4, 4, 8, 1, 48};
}

// The first run: few sequences a part and a narrow beam, only to bound the second run.
Effort CoarseEffort(const Effort& effort) {
  return {.steps_per_part = std::min(8, effort.steps_per_part),
          .width = std::min(4, effort.width),
          .kept_points = 6,
          .moving_points = 12,
          .memory_shares = 1,
          .max_stages = effort.max_stages};
}

// For a chain whose makespan is known to a percent or less.
Effort ImprovingEffort(int stages) {
  Effort effort = EffortFor(stages);
  effort.steps_per_part = std::min(16, effort.steps_per_part);
  effort.width = 20;
  effort.memory_shares = stages <= 400 ? 2 : 1;
  effort.max_stages = stages <= 400 ? 64 : 48;
  return effort;
}

int64_t ProgramBytes(int stages, const Effort& effort) {
  constexpr int64_t kPerStage = 64 << 10;  // relaxations, labels and schedules
  const int64_t sequences = PartSequences::WorkingBytes(
      stages, {.max_steps_per_part = effort.steps_per_part, .max_stages = effort.max_stages});
  return sequences + kPerStage * (stages + 2);
}

// The portfolio. Only plans for the first share are solutions of the relaxed program for the whole
// budget; the smaller ones leave slack for whole transfers. The first penalty only breaks ties.
constexpr double kMemoryShares[] = {1, 0.97, 0.93, 0.88, 0.8, 0.7};
const std::vector<double>& Penalties() {
  static const auto& penalties = *new std::vector<double>{0.003, 0.0003, 0.02, 0.1, 0.3};
  return penalties;
}

// Solves one budget: tries schedules and keeps the fastest, the incumbent, in outcome_.
class Portfolio {
 public:
  Portfolio(const Instance& instance, int64_t memory_bytes, PofoExtent extent,
            const SolveContext& context)
      : instance_(instance),
        chain_(instance.chain()),
        platform_(instance.platform()),
        memory_(memory_bytes),
        extent_(extent),
        context_(context),
        step_seconds_(EagerSeconds(chain_)),
        placement_(chain_, platform_) {}

  absl::StatusOr<PofoOutcome> Solve() {
    if (memory_ >= StoreAllPeakBytes(chain_)) {
      outcome_.seconds = step_seconds_;
      outcome_.schedule = StoreAllSchedule(chain_);
      return std::move(outcome_);
    }
    // The extremes, no offloading and no recomputation, are the first incumbents: the result is
    // never worse than either.
    RETURN_IF_ERROR(TryWithoutOffloading());
    if (!platform_.has_link()) return std::move(outcome_);
    TryWithoutRecomputation();
    // The coarse run lowers the incumbent, and with it MostLostSeconds() of the fine run.
    const Effort effort = EffortFor(chain_.length());
    const Effort coarse = CoarseEffort(effort);
    RETURN_IF_ERROR(BuildSequences(coarse));
    RETURN_IF_ERROR(TryPlans(coarse, kMemoryShares[0], {Penalties().front()}));
    outcome_.relaxed_lost_seconds.reset();  // only the fine run's counts
    RETURN_IF_ERROR(BuildSequences(effort));
    if (extent_ == PofoExtent::kOnePlan) {
      RETURN_IF_ERROR(TryPlans(effort, kMemoryShares[0], {Penalties().front()}));
      return std::move(outcome_);
    }
    for (int i = 0; i < effort.memory_shares; ++i) {
      RETURN_IF_ERROR(TryPlans(effort, kMemoryShares[i], Penalties()));
      context_.Report(static_cast<double>(i + 1) / effort.memory_shares);
    }
    return std::move(outcome_);
  }

  absl::StatusOr<PofoOutcome> Improve(double known_seconds) {
    outcome_.seconds = known_seconds;
    const Effort effort = ImprovingEffort(chain_.length());
    RETURN_IF_ERROR(BuildSequences(effort));
    const bool one_plan = extent_ == PofoExtent::kOnePlan;
    for (int i = 0; i < (one_plan ? 1 : effort.memory_shares); ++i) {
      RETURN_IF_ERROR(TryPlans(effort, kMemoryShares[i],
                               one_plan ? std::vector{Penalties().front()} : Penalties()));
    }
    return std::move(outcome_);
  }

 private:
  // Rotor's schedule.
  absl::Status TryWithoutOffloading() {
    SolveContext quiet = context_;
    quiet.progress = nullptr;
    quiet.improved = nullptr;
    quiet.lowest_bytes = memory_;
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution,
                     MakeRotor()->Solve(instance_, quiet));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate, solution->ScheduleWithin(memory_, quiet));
    if (!candidate.has_value()) return absl::OkStatus();
    const absl::StatusOr<Simulation> simulation = Simulate(chain_, platform_, candidate->schedule);
    if (!simulation.ok()) return absl::OkStatus();
    Keep(simulation->prediction.makespan_seconds, std::move(candidate->schedule));
    return absl::OkStatus();
  }

  // Saves everything and offloads the first values, as few as make it fit: the rule of
  // offload/greedy.h.
  void TryWithoutRecomputation() {
    StoredChain stored(instance_);
    std::vector<bool> moved(static_cast<size_t>(chain_.length()) + 1);
    for (size_t l = 0; l < moved.size(); ++l) {
      moved[l] = true;
      const std::optional<double> seconds = stored.Place(moved, memory_);
      if (!seconds.has_value()) continue;
      if (*seconds < outcome_.seconds) Keep(*seconds, stored.ToSchedule());
      return;
    }
  }

  // Plans that lose as much are not wanted: what the incumbent loses, and a little more, since a
  // slightly worse plan may become the faster schedule.
  double MostLostSeconds() const {
    constexpr double kSlack = 0.02;
    const double lost = outcome_.seconds - step_seconds_;
    return lost + kSlack * std::max(lost, kSlack * step_seconds_);
  }

  absl::Status BuildSequences(const Effort& effort) {
    sequences_.reset();  // frees its memory before the next one is built
    ASSIGN_OR_RETURN(sequences_,
                     PartSequences::Build(chain_,
                                          {.memory_bytes = memory_,
                                           .max_recompute_seconds = MostLostSeconds(),
                                           .prefetch_bytes_per_second = platform_.prefetch_rate(),
                                           .max_steps_per_part = effort.steps_per_part,
                                           .max_stages = effort.max_stages},
                                          context_));
    return absl::OkStatus();
  }

  // Solves the relaxed program for a share of the budget and converts all of its plans.
  absl::Status TryPlans(const Effort& effort, double memory_share, std::vector<double> penalties) {
    const PofoProgram program(chain_, platform_, *sequences_);
    const auto share = static_cast<int64_t>(static_cast<double>(memory_) * memory_share);
    ASSIGN_OR_RETURN(std::vector<RelaxedPlan> plans,
                     program.Solve({.memory_bytes = std::min(memory_, share),
                                    .width = effort.width,
                                    .kept_points = effort.kept_points,
                                    .moving_points = effort.moving_points,
                                    .pruning = chain_.length() > kLongestUnpruned
                                                   ? PofoProgram::Pruning::kByEstimate
                                                   : PofoProgram::Pruning::kByLoss,
                                    .max_lost_seconds = MostLostSeconds(),
                                    .offload_penalties = std::move(penalties)},
                                   context_));
    for (const RelaxedPlan& plan : plans) {
      Convert(plan.parts);
      if (memory_share < 1) continue;
      // A plan for less memory says nothing about the relaxed optimum of the budget.
      std::optional<double>& least = outcome_.relaxed_lost_seconds;
      least = std::min(least.value_or(plan.lost_seconds), plan.lost_seconds);
    }
    return absl::OkStatus();
  }

  // Places the plan's transfers within the whole budget and keeps the schedule if it is fastest.
  void Convert(const std::vector<ForwardPart>& parts) {
    AssembleParts(chain_, parts, &assembled_);
    const std::optional<double> seconds =
        placement_.Place(assembled_.sequence, assembled_.choices, memory_);
    if (!seconds.has_value() || *seconds >= outcome_.seconds) return;
    Keep(*seconds, placement_.ToSchedule(assembled_.sequence));
  }

  // The new incumbent.
  void Keep(double seconds, Schedule schedule) {
    outcome_.seconds = seconds;
    outcome_.schedule = std::move(schedule);
    if (context_.improved) {
      context_.improved({outcome_.schedule, "pofo", Guarantee::kHeuristic, {}});
    }
  }

  const Instance& instance_;
  const Chain& chain_;
  const Platform& platform_;
  const int64_t memory_;
  const PofoExtent extent_;
  const SolveContext& context_;
  const double step_seconds_;  // one forward and backward of every stage
  TransferPlacement placement_;
  AssembledSequence assembled_;  // scratch of Convert()
  std::optional<PartSequences> sequences_;
  PofoOutcome outcome_;
};

class Pofo final : public BudgetAlgorithm {
 public:
  const char* name() const override { return "pofo"; }

  int64_t WorkingBytes(const Instance& instance) const override {
    const int stages = instance.chain().length();
    return std::max({ProgramBytes(stages, EffortFor(stages)), MakeRotor()->WorkingBytes(instance),
                     LeastPlanBytes(instance.chain(), Recomputation::kParts)});
  }

  absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                     const SolveContext& context) const override {
    ASSIGN_OR_RETURN(
        std::optional<LeastPlan> least,
        FindLeastPlan(instance.chain(), instance.platform(), Recomputation::kParts, context));
    // Rotor's schedules, the first incumbents, let inputs leave that no backward reads, and save
    // stages in other ways.
    ASSIGN_OR_RETURN(std::optional<LeastPlan> leaving,
                     LeastPlanOfLeavingParts(instance.chain(), context));
    const int64_t most = least.has_value() ? least->memory_bytes : INT64_MAX;
    if (leaving.has_value() && leaving->memory_bytes < most) least = std::move(leaving);
    return least;
  }

  absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance, int64_t memory_bytes,
                                               const SolveContext& context) const override {
    ASSIGN_OR_RETURN(PofoOutcome outcome,
                     SolvePofo(instance, memory_bytes, PofoExtent::kPortfolio, context));
    if (outcome.schedule.operations.empty()) return std::optional<Schedule>();
    return std::move(outcome.schedule);
  }
};

}  // namespace

absl::StatusOr<PofoOutcome> SolvePofo(const Instance& instance, int64_t memory_bytes,
                                      PofoExtent extent, const SolveContext& context) {
  return Portfolio(instance, memory_bytes, extent, context).Solve();
}

absl::StatusOr<PofoOutcome> ImproveByPlans(const Instance& instance, int64_t memory_bytes,
                                           PofoExtent extent, double known_seconds,
                                           const SolveContext& context) {
  return Portfolio(instance, memory_bytes, extent, context).Improve(known_seconds);
}

int64_t ImproveByPlansBytes(int stages) { return ProgramBytes(stages, ImprovingEffort(stages)); }

std::unique_ptr<Solver> MakePofo() { return MakeBudgetSolver(std::make_unique<Pofo>()); }

}  // namespace stowage

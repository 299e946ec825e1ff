#include "solver/algorithms/rematerialization/rotor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "solver/algorithms/rematerialization/leaving_minimum.h"
#include "solver/algorithms/rematerialization/leaving_table.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/rotor_guided.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/rematerialization/rotor_plan.h"
#include "solver/algorithms/rematerialization/rotor_steps.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// The longest chain for which exact steps are tried before slots, and the limit on their work:
// about 50 ms on real networks, twice that on chains of random sizes.
constexpr int kMaxStagesOfSteps = 64;
constexpr int64_t kMaxWorkOfSteps = 10'000'000;

// Whether the slots of the table are too coarse to tell one way to save a stage from another: its
// schedules may then be slower than those of the stages' own ways, which have a table as well.
bool WaysAreCoarse(const Chain& chain, int64_t levels) {
  constexpr int64_t kFewLevelsAStage = 4;
  return chain.has_save_options() && levels < kFewLevelsAStage * (chain.length() + 1);
}

Instance InOwnWays(const Instance& instance) {
  Chain chain = instance.chain();
  chain.ClearSaveOptions();
  return instance.WithChain(std::move(chain));
}

// Whether short chains are first solved exactly, by RotorSteps.
enum class ExactSteps { kTry, kSkip };

// What distinguishes the solvers of this file.
struct PersistentOptions {
  const char* name;  // static
  Saving saving = Saving::kAlways;
  ExactSteps exact_steps = ExactSteps::kTry;
};

// Keeps the instance to simulate schedules with.
class PersistentSolution final : public Solution {
 public:
  static absl::StatusOr<std::unique_ptr<const Solution>> Build(const PersistentOptions& options,
                                                               const Instance& instance,
                                                               const SolveContext& context);

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override;
  int64_t serves_from_bytes() const override { return exact() ? 0 : plan_.lowest_budget; }
  bool exact() const override { return !table_.has_value() && !leaving_table_.has_value(); }

 private:
  PersistentSolution(const PersistentOptions& options, const Instance& instance,
                     int64_t lowest_bytes)
      : name_(options.name),
        saving_(options.saving),
        instance_(instance),
        plan_(PlanOf(instance, options.saving, lowest_bytes)) {}

  // A simulated schedule that fits the budget.
  struct Measured {
    Schedule schedule;
    double seconds = 0;  // makespan
    int64_t level = 0;   // the table level that it comes from; 0: another source
  };
  // Builds the table for the levels near the budgets that will be queried, and with all levels if
  // none of those fits.
  absl::StatusOr<RotorTable> BuildTable(const Chain& chain, const TablePlan& plan,
                                        const SolveContext& context) const;
  // Simulates `schedule` and appends it to `measured` if it exists and fits.
  void Measure(std::optional<Schedule> schedule, int64_t memory_bytes,
               std::vector<Measured>* measured) const;
  // The table's fastest schedule that fits in bytes: one entry or none.
  template <typename Table>
  absl::StatusOr<std::vector<Measured>> FastestOf(const Table& table, int64_t memory_bytes,
                                                  const SolveContext& context) const;
  std::optional<Candidate> ToCandidate(std::vector<Measured> measured, Guarantee guarantee) const;

  const char* const name_;
  const Saving saving_;
  const Instance instance_;
  const TablePlan plan_;
  // Written by Build() only. minimum_ is always set. Either steps_ or table_ is set, unless storing
  // everything fits every budget that will be queried.
  std::optional<RotorMinimum> minimum_;
  std::optional<RotorSteps> steps_;
  std::optional<RotorTable> table_;
  std::optional<RotorTable> own_ways_table_;  // where WaysAreCoarse(): without save_options
  // Of chains with leaving parts: the minimum, and where inputs may leave the table, instead of
  // table_ where it is as fine.
  std::optional<LeavingMinimum> leaving_minimum_;
  std::optional<LeavingTable> leaving_table_;
};

absl::StatusOr<std::unique_ptr<const Solution>> PersistentSolution::Build(
    const PersistentOptions& options, const Instance& instance, const SolveContext& context) {
  const Saving saving = options.saving;
  std::unique_ptr<PersistentSolution> solution(
      new PersistentSolution(options, instance, context.lowest_bytes));
  const Chain& chain = solution->instance_.chain();
  const TablePlan& plan = solution->plan_;
  ASSIGN_OR_RETURN(solution->minimum_, RotorMinimum::Build(chain, saving, context));
  const bool leaving = HasLeavingParts(chain);
  if (leaving) {
    ASSIGN_OR_RETURN(solution->leaving_minimum_, LeavingMinimum::Build(chain, saving, context));
  }
  const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
  if (saving == Saving::kAlways && lowest >= StoreAllPeakBytes(chain)) return solution;
  if (options.exact_steps == ExactSteps::kTry && chain.length() <= kMaxStagesOfSteps) {
    // As much memory as the table would take: WorkingBytes() covers either.
    const auto max_steps = static_cast<size_t>(plan.table_bytes) / RotorSteps::BytesPerStep();
    const RotorSteps::Options step_options{.memory_bytes = plan.table.grid.bytes,
                                           .saving = saving,
                                           .max_steps = max_steps,
                                           .max_work = kMaxWorkOfSteps};
    ASSIGN_OR_RETURN(solution->steps_, RotorSteps::Build(chain, step_options, context));
  }
  if (!solution->steps_.has_value()) {
    const auto leaving_plan = LeavingPlanOf(instance, plan, saving);
    if (leaving_plan.has_value()) {
      ASSIGN_OR_RETURN(solution->leaving_table_,
                       LeavingTable::Build(chain, *leaving_plan, context));
    }
    // A table that is coarse may lose more than such parts gain.
    if (!leaving_plan.has_value() || leaving_plan->levels < plan.table.levels) {
      ASSIGN_OR_RETURN(solution->table_, solution->BuildTable(chain, plan, context));
    }
    if (WaysAreCoarse(chain, plan.table.levels)) {
      const Instance own_ways = InOwnWays(instance);
      ASSIGN_OR_RETURN(
          solution->own_ways_table_,
          solution->BuildTable(own_ways.chain(), PlanOf(own_ways, saving, context.lowest_bytes),
                               context));
    }
  }
  context.Report(1);
  return solution;
}

absl::StatusOr<RotorTable> PersistentSolution::BuildTable(const Chain& chain, const TablePlan& plan,
                                                          const SolveContext& context) const {
  RotorTable::Options options = plan.table;
  {
    ASSIGN_OR_RETURN(RotorTable table, RotorTable::Build(chain, options, context));
    if (options.lowest_level == 0 || !table.LostSecondsAt(options.lowest_level).has_value()) {
      return table;
    }
    ASSIGN_OR_RETURN(const std::vector<Measured> measured,
                     FastestOf(table, plan.lowest_budget, context));
    if (!measured.empty()) return table;
  }
  // Too many sizes were rounded down: only schedules of far lower levels fit.
  options.lowest_level = 0;
  return RotorTable::Build(chain, options, context);
}

void PersistentSolution::Measure(std::optional<Schedule> schedule, int64_t memory_bytes,
                                 std::vector<Measured>* measured) const {
  if (!schedule.has_value()) return;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance_.chain(), instance_.platform(), *schedule);
  if (!simulation.ok() || simulation->prediction.peak_memory_bytes > memory_bytes) return;
  measured->push_back({*std::move(schedule), simulation->prediction.makespan_seconds});
}

template <typename Table>
absl::StatusOr<std::vector<PersistentSolution::Measured>> PersistentSolution::FastestOf(
    const Table& table, int64_t memory_bytes, const SolveContext& context) const {
  const SlotGrid& grid = table.grid();
  const int64_t budget_level = std::min(grid.slots, grid.Slots(memory_bytes));
  const int64_t beyond =
      (table.levels() - grid.slots) * budget_level / std::max<int64_t>(1, grid.slots);
  std::vector<Measured> measured;
  // Lost time is non-increasing in the level, so the highest level whose schedule fits is best. Of
  // levels that lose the same, only the lowest is tried: its schedule needs the least memory.
  for (int64_t level = budget_level + beyond; level >= table.lowest_level(); --level) {
    RETURN_IF_ERROR(context.CheckStop());
    const std::optional<double> lost = table.LostSecondsAt(level);
    if (!lost.has_value()) break;  // lower levels are infeasible, too
    if (level > table.lowest_level() && table.LostSecondsAt(level - 1) == lost) continue;
    std::optional<Schedule> schedule = table.ScheduleAt(level);
    if (!schedule.has_value()) break;
    Measure(std::move(schedule), memory_bytes, &measured);
    if (measured.empty()) continue;
    measured.front().level = level;
    break;
  }
  return measured;
}

std::optional<Candidate> PersistentSolution::ToCandidate(std::vector<Measured> measured,
                                                         Guarantee guarantee) const {
  if (measured.empty()) return std::nullopt;
  const auto fastest =
      std::min_element(measured.begin(), measured.end(),
                       [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
  return Candidate{std::move(fastest->schedule), name_, guarantee, {}};
}

absl::StatusOr<std::optional<Candidate>> PersistentSolution::ScheduleWithin(
    int64_t memory_bytes, const SolveContext& context) const {
  const Chain& chain = instance_.chain();
  if (saving_ == Saving::kAlways && memory_bytes >= StoreAllPeakBytes(chain)) {
    return std::optional<Candidate>({StoreAllSchedule(chain), name_, Guarantee::kOptimal, {}});
  }
  const int64_t useful = std::min(memory_bytes, plan_.table.grid.bytes);
  if (steps_.has_value()) {
    std::optional<Schedule> schedule = steps_->ScheduleWithin(useful);
    if (!schedule.has_value()) return std::optional<Candidate>();
    return std::optional<Candidate>({*std::move(schedule), name_, Guarantee::kOptimal, {}});
  }
  std::vector<Measured> measured;
  if (leaving_table_.has_value()) {
    ASSIGN_OR_RETURN(measured, FastestOf(*leaving_table_, useful, context));
  }
  if (table_.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<Measured> staying, FastestOf(*table_, useful, context));
    measured.insert(measured.end(), staying.begin(), staying.end());
  }
  if (own_ways_table_.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<Measured> own_ways,
                     FastestOf(*own_ways_table_, useful, context));
    measured.insert(measured.end(), own_ways.begin(), own_ways.end());
  }
  // Close to the least memory a single slot matters, and the table's schedules fit badly or not at
  // all: try guided schedules and the least one.
  if (measured.empty() || useful / 2 < minimum_->min_bytes()) {
    for (const int64_t levels_up : {0, 1, 2, 4, 8, 16}) {
      RETURN_IF_ERROR(context.CheckStop());
      if (!table_.has_value()) break;
      Measure(GuidedSchedule(*table_, *minimum_, useful, levels_up), useful, &measured);
    }
    Measure(minimum_->LeastSchedule(), useful, &measured);
    if (leaving_minimum_.has_value()) {
      Measure(leaving_minimum_->LeastSchedule(), useful, &measured);
    }
  }
  // If only a far lower level fits, most of what is kept was rounded down, outputs perhaps to 0,
  // and the table's times are not reliable; nor are those of a few slots. Try periodic checkpoints,
  // too.
  const int64_t budget_level = plan_.table.grid.Slots(useful);
  const bool misjudged = plan_.table.grid.slots < kFewSlots ||
                         (!measured.empty() && measured.front().level < budget_level / 10 * 9);
  if (saving_ == Saving::kAlways && (measured.empty() || misjudged)) {
    SolveContext one_budget = context;
    one_budget.lowest_bytes = useful;
    ASSIGN_OR_RETURN(const auto periodic, MakePeriodic()->Solve(instance_, one_budget));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate, periodic->ScheduleWithin(useful, context));
    if (candidate.has_value()) Measure(std::move(candidate->schedule), useful, &measured);
  }
  // kRounding even with exact slots: the table's times are in single precision.
  return ToCandidate(std::move(measured), Guarantee::kUpToRounding);
}

class PersistentSolver final : public Solver {
 public:
  explicit PersistentSolver(const PersistentOptions& options) : options_(options) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    const int64_t tables =
        CheckedAdd(TableBytes(instance, options_.saving), LeavingBytes(instance, options_.saving))
            .value_or(INT64_MAX);
    return CheckedAdd(2 * RotorMinimum::WorkingBytes(instance.chain()), tables).value_or(INT64_MAX);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (HasLeavingParts(instance.chain())) {
      ASSIGN_OR_RETURN(const LeavingMinimum minimum,
                       LeavingMinimum::Build(instance.chain(), options_.saving, context));
      return minimum.least_bytes();
    }
    ASSIGN_OR_RETURN(const RotorMinimum minimum,
                     RotorMinimum::Build(instance.chain(), options_.saving, context));
    return minimum.min_bytes();
  }

  // Revolve checkpoints every stage but the loss before it saves it.
  double LeastSeconds(const Instance& instance) const override {
    const Chain& chain = instance.chain();
    double seconds = EagerSeconds(chain);
    if (options_.saving == Saving::kAlways) return seconds;
    for (const Stage& stage : chain.stages) {
      if (!stage.no_recompute) seconds += stage.ReplaySeconds();
    }
    return seconds;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    return PersistentSolution::Build(options_, instance, context);
  }

 private:
  const PersistentOptions options_;
};

}  // namespace

std::unique_ptr<Solver> MakePersistentSolver(const char* name, Saving saving) {
  return std::make_unique<PersistentSolver>(PersistentOptions{.name = name, .saving = saving});
}

std::unique_ptr<Solver> MakeRotor() { return MakePersistentSolver("rotor", Saving::kAlways); }

std::unique_ptr<Solver> MakeRotorWithoutExactSteps() {
  return std::make_unique<PersistentSolver>(
      PersistentOptions{.name = "rotor", .exact_steps = ExactSteps::kSkip});
}

}  // namespace stowage

#include "solver/algorithms/rematerialization/rotor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/rotor_guided.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/rematerialization/rotor_steps.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Up to where exact steps are tried before slots, and how much they may cost: some 50 ms on
// networks, twice that on chains of random sizes.
constexpr int kMostStagesOfSteps = 64;
constexpr int64_t kMostWorkOfSteps = 10'000'000;

// Beyond it memory makes no difference. Storing everything never holds a gradient while it saves; a
// program that saves late does.
int64_t UsefulBytes(const Instance& instance, Saving saving) {
  const Chain& chain = instance.chain();
  int64_t most = StoreAllPeakBytes(chain);
  if (saving != Saving::kAlways) {
    int64_t gradient = 0;
    int64_t overhead = 0;
    for (int l = 1; l <= chain.length() + 1; ++l) {
      gradient = std::max(gradient, chain.gradient_bytes(l));
      overhead = std::max(overhead, chain.stage(l).forward_overhead_bytes);
    }
    most += gradient + overhead;  // each below 2^62, and their sum with all others, too
  }
  return std::min(instance.platform().memory_bytes, most);
}

int64_t SlotsOf(const Instance& instance) {
  const int64_t asked = instance.options().memory_slots;
  return asked > 0 ? asked : kDefaultMemorySlots;
}

// More levels than any grid near so many slots is given.
int64_t MostLevels(int64_t slots) { return slots + slots * 3 / 5 + 2; }

// What one solve builds.
struct Plan {
  RotorTable::Options table;
  int64_t table_bytes = 0;    // an upper bound
  int64_t lowest_budget = 0;  // that the table answers
};

bool IsExact(const Instance& instance, Saving saving) {
  return SlotsOf(instance) >= UsefulBytes(instance, saving) / instance.granule_bytes();
}

// Without looking for the grid, which takes a while: grows with the slots, but that exact ones are
// no more than there are granules.
int64_t TableBytes(const Instance& instance, Saving saving) {
  const int64_t granules = UsefulBytes(instance, saving) / instance.granule_bytes();
  const int64_t levels = IsExact(instance, saving) ? granules : MostLevels(SlotsOf(instance));
  return RotorTable::WorkingBytes(instance.chain(), levels);
}

// `lowest_bytes`: the least that will be asked for.
Plan PlanOf(const Instance& instance, Saving saving, int64_t lowest_bytes) {
  const int64_t bytes = UsefulBytes(instance, saving);
  Plan plan;
  plan.table_bytes = TableBytes(instance, saving);
  // Half as many slots for half the memory is as coarse as a table should get.
  plan.lowest_budget = std::max(bytes / 2, std::min(bytes, lowest_bytes));
  if (IsExact(instance, saving)) {
    const int64_t granules = bytes / instance.granule_bytes();
    plan.table = {{bytes, granules, SlotGrid::Rounding::kUp}, granules, saving};
  } else {
    const int64_t slots = SlotsOf(instance);
    const SlotGrid grid = BestFittingGrid(instance.chain(), bytes, slots);
    plan.table = {grid, std::min(MostLevels(slots), LevelsBeyond(instance.chain(), grid)), saving};
  }
  // What was rounded down may need some levels less to fit, and of equal levels the lowest is best.
  plan.table.lowest_level = plan.table.grid.Slots(plan.lowest_budget / 4 * 3);
  return plan;
}

// The instance is kept beside the rest, for measuring.
class PersistentSolution final : public Solution {
 public:
  // `exact_steps`: try them first.
  static absl::StatusOr<std::unique_ptr<const Solution>> Build(const char* name, Saving saving,
                                                               bool exact_steps,
                                                               const Instance& instance,
                                                               const SolveContext& context);

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override;
  int64_t serves_from_bytes() const override { return exact() ? 0 : plan_.lowest_budget; }
  bool exact() const override { return !table_.has_value(); }

 private:
  PersistentSolution(const char* name, Saving saving, const Instance& instance,
                     int64_t lowest_bytes)
      : name_(name),
        saving_(saving),
        instance_(instance),
        plan_(PlanOf(instance, saving, lowest_bytes)) {}

  // A schedule that fits, and its time.
  struct Found {
    Schedule schedule;
    double seconds = 0;
    int64_t level = 0;  // of the table, where it is from there
  };
  // With all levels where those near the budgets that will be asked for are not enough.
  absl::Status BuildTable(const SolveContext& context);
  // Adds it to `found` where there is one and it fits.
  void Measure(std::optional<Schedule> schedule, int64_t memory_bytes,
               std::vector<Found>* found) const;
  absl::StatusOr<std::vector<Found>> FastestOfTable(int64_t memory_bytes,
                                                    const SolveContext& context) const;
  std::optional<Candidate> ToCandidate(std::vector<Found> found, Limit limit) const;

  const char* const name_;
  const Saving saving_;
  const Instance instance_;
  const Plan plan_;
  // Written by Build(). The minimum is always there, and the steps or the table unless storing
  // everything fits whatever will be asked.
  std::optional<RotorMinimum> minimum_;
  std::optional<RotorSteps> steps_;
  std::optional<RotorTable> table_;
};

absl::StatusOr<std::unique_ptr<const Solution>> PersistentSolution::Build(
    const char* name, Saving saving, bool exact_steps, const Instance& instance,
    const SolveContext& context) {
  std::unique_ptr<PersistentSolution> solution(
      new PersistentSolution(name, saving, instance, context.lowest_bytes));
  const Chain& chain = solution->instance_.chain();
  const Plan& plan = solution->plan_;
  ASSIGN_OR_RETURN(solution->minimum_, RotorMinimum::Build(chain, saving, context));
  const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
  if (saving == Saving::kAlways && lowest >= StoreAllPeakBytes(chain)) return solution;
  if (exact_steps && chain.length() <= kMostStagesOfSteps) {
    const auto most_steps = static_cast<size_t>(plan.table_bytes) / RotorSteps::BytesPerStep();
    const RotorSteps::Options options{.memory_bytes = plan.table.grid.bytes,
                                      .saving = saving,
                                      .most_steps = most_steps,
                                      .most_work = kMostWorkOfSteps};
    ASSIGN_OR_RETURN(solution->steps_, RotorSteps::Build(chain, options, context));
  }
  if (!solution->steps_.has_value()) RETURN_IF_ERROR(solution->BuildTable(context));
  context.Report(1);
  return solution;
}

absl::Status PersistentSolution::BuildTable(const SolveContext& context) {
  RotorTable::Options options = plan_.table;
  ASSIGN_OR_RETURN(table_, RotorTable::Build(instance_.chain(), options, context));
  if (options.lowest_level == 0 || !table_->LostSecondsAt(options.lowest_level).has_value()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Found> found, FastestOfTable(plan_.lowest_budget, context));
  if (!found.empty()) return absl::OkStatus();
  // So much was rounded down that only schedules of far lower levels fit.
  options.lowest_level = 0;
  table_.reset();
  ASSIGN_OR_RETURN(table_, RotorTable::Build(instance_.chain(), options, context));
  return absl::OkStatus();
}

void PersistentSolution::Measure(std::optional<Schedule> schedule, int64_t memory_bytes,
                                 std::vector<Found>* found) const {
  if (!schedule.has_value()) return;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance_.chain(), instance_.platform(), *schedule);
  if (!simulation.ok() || simulation->prediction.peak_memory_bytes > memory_bytes) return;
  found->push_back({*std::move(schedule), simulation->prediction.makespan_seconds});
}

absl::StatusOr<std::vector<PersistentSolution::Found>> PersistentSolution::FastestOfTable(
    int64_t memory_bytes, const SolveContext& context) const {
  const SlotGrid& grid = table_->grid();
  const int64_t budget_level = std::min(grid.slots, grid.Slots(memory_bytes));
  const int64_t beyond =
      (table_->levels() - grid.slots) * budget_level / std::max<int64_t>(1, grid.slots);
  std::vector<Found> found;
  // A level never does worse than those below it, so the highest whose schedule fits is the best;
  // of levels that lose the same the lowest needs the least.
  for (int64_t level = budget_level + beyond; level >= table_->lowest_level(); --level) {
    RETURN_IF_ERROR(context.CheckStop());
    const std::optional<double> lost = table_->LostSecondsAt(level);
    if (!lost.has_value()) break;  // nor is there one below
    if (level > table_->lowest_level() && table_->LostSecondsAt(level - 1) == lost) continue;
    std::optional<Schedule> schedule = table_->ScheduleAt(level);
    if (!schedule.has_value()) break;
    Measure(std::move(schedule), memory_bytes, &found);
    if (found.empty()) continue;
    found.front().level = level;
    break;
  }
  return found;
}

std::optional<Candidate> PersistentSolution::ToCandidate(std::vector<Found> found,
                                                         Limit limit) const {
  if (found.empty()) return std::nullopt;
  const auto fastest =
      std::min_element(found.begin(), found.end(),
                       [](const Found& a, const Found& b) { return a.seconds < b.seconds; });
  return Candidate{std::move(fastest->schedule), name_, limit, {}};
}

absl::StatusOr<std::optional<Candidate>> PersistentSolution::ScheduleWithin(
    int64_t memory_bytes, const SolveContext& context) const {
  const Chain& chain = instance_.chain();
  if (saving_ == Saving::kAlways && memory_bytes >= StoreAllPeakBytes(chain)) {
    return std::optional<Candidate>({StoreAllSchedule(chain), name_, Limit::kNone, {}});
  }
  const int64_t useful = std::min(memory_bytes, plan_.table.grid.bytes);
  if (steps_.has_value()) {
    std::optional<Schedule> schedule = steps_->ScheduleWithin(useful);
    if (!schedule.has_value()) return std::optional<Candidate>();
    return std::optional<Candidate>({*std::move(schedule), name_, Limit::kNone, {}});
  }
  ASSIGN_OR_RETURN(std::vector<Found> found, FastestOfTable(useful, context));
  // Where a slot more or less decides, the table's schedules may fit badly or not at all.
  if (found.empty() || useful / 2 < minimum_->least_bytes()) {
    for (const int64_t levels_up : {0, 1, 2, 4, 8, 16}) {
      RETURN_IF_ERROR(context.CheckStop());
      Measure(GuidedSchedule(*table_, *minimum_, useful, levels_up), useful, &found);
    }
    Measure(minimum_->LeastSchedule(), useful, &found);
  }
  // Where most of what is kept was rounded down, outputs to nothing perhaps, the table is no judge.
  const int64_t budget_level = plan_.table.grid.Slots(useful);
  const bool misjudged = !found.empty() && found.front().level < budget_level / 10 * 9;
  if (saving_ == Saving::kAlways && (found.empty() || misjudged)) {
    ASSIGN_OR_RETURN(const auto periodic, MakePeriodic()->Solve(instance_, context));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate, periodic->ScheduleWithin(useful, context));
    if (candidate.has_value()) Measure(std::move(candidate->schedule), useful, &found);
  }
  // Whatever the slots: times are in single precision.
  return ToCandidate(std::move(found), Limit::kRounding);
}

class PersistentSolver final : public Solver {
 public:
  PersistentSolver(const char* name, Saving saving, bool exact_steps)
      : name_(name), saving_(saving), exact_steps_(exact_steps) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return CheckedAdd(2 * RotorMinimum::WorkingBytes(instance.chain()),
                      TableBytes(instance, saving_))
        .value_or(INT64_MAX);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ASSIGN_OR_RETURN(const RotorMinimum minimum,
                     RotorMinimum::Build(instance.chain(), saving_, context));
    return minimum.least_bytes();
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    return PersistentSolution::Build(name_, saving_, exact_steps_, instance, context);
  }

 private:
  const char* const name_;
  const Saving saving_;
  const bool exact_steps_;
};

}  // namespace

std::unique_ptr<Solver> MakePersistentSolver(const char* name, Saving saving) {
  return std::make_unique<PersistentSolver>(name, saving, true);
}

std::unique_ptr<Solver> MakeRotor() { return MakePersistentSolver("rotor", Saving::kAlways); }

std::unique_ptr<Solver> MakeRotorOfSlots() {
  return std::make_unique<PersistentSolver>("rotor", Saving::kAlways, false);
}

}  // namespace stowage

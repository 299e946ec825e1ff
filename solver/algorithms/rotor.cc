#include "solver/algorithms/rotor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "solver/algorithms/rotor_minimum.h"
#include "solver/algorithms/rotor_table.h"
#include "solver/algorithms/store_all.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/lower_bound.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr int64_t kDefaultSlots = 500;
// How far beyond the budget a table of sizes rounded to nearest goes: what it believes to be over
// the budget may fit in bytes.
constexpr int64_t kExtraLevelsPerSlots = 20;  // 1 / 20 = 5 %

// The grids that one solve builds a table for.
std::vector<SlotGrid> Grids(const Instance& instance) {
  const int64_t asked = instance.options().memory_slots;
  const int64_t slots = asked > 0 ? asked : kDefaultSlots;
  const int64_t bytes =
      std::min(instance.platform().memory_bytes, StoreAllPeakBytes(instance.chain()));
  const int64_t granules = bytes / instance.granule_bytes();
  if (slots >= granules) return {{bytes, granules, SlotGrid::Rounding::kUp}};
  return {{bytes, slots, SlotGrid::Rounding::kNearest}, {bytes, slots, SlotGrid::Rounding::kUp}};
}

int64_t Levels(const SlotGrid& grid) {
  const bool nearest = grid.rounding == SlotGrid::Rounding::kNearest;
  return nearest ? grid.slots + grid.slots / kExtraLevelsPerSlots + 1 : grid.slots;
}

// The instance is kept beside the tables, which borrow its chain.
class RotorSolution final : public Solution {
 public:
  static absl::StatusOr<std::unique_ptr<const Solution>> Build(const Instance& instance,
                                                               const SolveContext& context);

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override;

 private:
  explicit RotorSolution(const Instance& instance) : instance_(instance) {}

  // A schedule that fits, and its time.
  struct Found {
    Schedule schedule;
    double seconds = 0;
  };
  std::optional<Found> Measure(std::optional<Schedule> schedule, int64_t memory_bytes) const;
  absl::StatusOr<std::optional<Found>> FastestOf(const RotorTable& table, int64_t memory_bytes,
                                                 const SolveContext& context) const;

  const Instance instance_;
  std::vector<RotorTable> tables_;
  std::optional<RotorMinimum> minimum_;  // set by Build()
};

absl::StatusOr<std::unique_ptr<const Solution>> RotorSolution::Build(const Instance& instance,
                                                                     const SolveContext& context) {
  std::unique_ptr<RotorSolution> solution(new RotorSolution(instance));
  const Chain& chain = solution->instance_.chain();
  ASSIGN_OR_RETURN(solution->minimum_, RotorMinimum::Build(chain, context));
  const std::vector<SlotGrid> grids = Grids(instance);
  solution->tables_.reserve(grids.size());
  for (const SlotGrid& grid : grids) {
    const auto done = static_cast<double>(solution->tables_.size());
    SolveContext one_table = context;
    one_table.progress = [&](double fraction) {
      context.Report((done + fraction) / static_cast<double>(grids.size()));
    };
    ASSIGN_OR_RETURN(RotorTable table, RotorTable::Build(chain, grid, Levels(grid), one_table));
    solution->tables_.push_back(std::move(table));
  }
  return solution;
}

std::optional<RotorSolution::Found> RotorSolution::Measure(std::optional<Schedule> schedule,
                                                           int64_t memory_bytes) const {
  if (!schedule.has_value()) return std::nullopt;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance_.chain(), instance_.platform(), *schedule);
  if (!simulation.ok() || simulation->prediction.peak_memory_bytes > memory_bytes) {
    return std::nullopt;
  }
  return Found{*std::move(schedule), simulation->prediction.makespan_seconds};
}

absl::StatusOr<std::optional<RotorSolution::Found>> RotorSolution::FastestOf(
    const RotorTable& table, int64_t memory_bytes, const SolveContext& context) const {
  // A level never does worse than those below it, so the highest whose schedule fits is the best.
  const SlotGrid& grid = table.grid();
  const int64_t budget_level = std::min(grid.slots, grid.Slots(memory_bytes));
  const int64_t top = std::min(table.levels(), budget_level + table.levels() - grid.slots);
  for (int64_t level = top; level >= 0; --level) {
    RETURN_IF_ERROR(context.CheckStop());
    std::optional<Schedule> schedule = table.ScheduleAt(level);
    if (!schedule.has_value()) break;  // nor is there one below
    if (std::optional<Found> found = Measure(std::move(schedule), memory_bytes)) return found;
  }
  return std::optional<Found>();
}

absl::StatusOr<std::optional<Candidate>> RotorSolution::ScheduleWithin(
    int64_t memory_bytes, const SolveContext& context) const {
  std::optional<Found> best;
  const auto consider = [&best](std::optional<Found> found) {
    if (found.has_value() && (!best.has_value() || found->seconds < best->seconds)) {
      best = std::move(found);
    }
  };
  bool exact = false;  // a table without rounding has had its say
  for (const RotorTable& table : tables_) {
    ASSIGN_OR_RETURN(std::optional<Found> found, FastestOf(table, memory_bytes, context));
    exact = exact || (found.has_value() && table.grid().IsExact(instance_.granule_bytes()));
    consider(std::move(found));
  }
  consider(Measure(StoreAllSchedule(instance_.chain()), memory_bytes));
  consider(Measure(minimum_->LeastSchedule(), memory_bytes));
  if (!best.has_value()) return std::optional<Candidate>();
  return Candidate{std::move(best->schedule), "rotor", exact ? Limit::kNone : Limit::kRounding, {}};
}

class Rotor final : public Solver {
 public:
  int64_t WorkingBytes(const Instance& instance) const override {
    int64_t bytes = 2 * RotorMinimum::WorkingBytes(instance.chain());
    for (const SlotGrid& grid : Grids(instance)) {
      const int64_t table = RotorTable::WorkingBytes(instance.chain(), Levels(grid));
      bytes = CheckedAdd(bytes, table).value_or(INT64_MAX);
    }
    return bytes;
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ASSIGN_OR_RETURN(const RotorMinimum minimum, RotorMinimum::Build(instance.chain(), context));
    return minimum.least_bytes();
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    return RotorSolution::Build(instance, context);
  }
};

}  // namespace

std::unique_ptr<Solver> MakeRotor() { return std::make_unique<Rotor>(); }

}  // namespace stowage

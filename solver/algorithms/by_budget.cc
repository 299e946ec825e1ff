#include "solver/algorithms/by_budget.h"

#include <utility>

#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Shared: solutions may outlive the solver.
using Algorithm = std::shared_ptr<const BudgetAlgorithm>;

// The final check: valid, within every limit of the platform and within the budget.
bool FitsWithin(const Instance& instance, const Schedule& schedule, int64_t memory_bytes) {
  if (schedule.operations.size() > kMaxOperations) return false;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance.chain(), instance.platform(), schedule);
  return simulation.ok() && simulation->feasible() &&
         simulation->prediction.peak_memory_bytes <= memory_bytes;
}

class BudgetSolution final : public Solution {
 public:
  BudgetSolution(Algorithm algorithm, const Instance& instance)
      : algorithm_(std::move(algorithm)), instance_(instance) {}

  // Solves the instance's own budget, so that ScheduleWithin() need not solve it again.
  absl::Status Prepare(const SolveContext& context) {
    ASSIGN_OR_RETURN(own_, Find(instance_.platform().memory_bytes, context));
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes == instance_.platform().memory_bytes) return own_;
    return Find(memory_bytes, context);
  }

  bool solves_each_budget() const override { return true; }

 private:
  absl::StatusOr<std::optional<Candidate>> Find(int64_t memory_bytes,
                                                const SolveContext& context) const {
    // 1. The algorithm. 2. If it finds nothing that fits, its least plan: that exists for every
    // budget of LeastBytes() or more, as Solver::Solve() promises.
    ASSIGN_OR_RETURN(std::optional<Schedule> schedule,
                     algorithm_->Find(instance_, memory_bytes, context));
    if (!schedule.has_value() || !FitsWithin(instance_, *schedule, memory_bytes)) {
      ASSIGN_OR_RETURN(std::optional<LeastPlan> least, algorithm_->FindLeast(instance_, context));
      if (!least.has_value() || least->memory_bytes > memory_bytes ||
          !FitsWithin(instance_, least->schedule, memory_bytes)) {
        return std::optional<Candidate>();
      }
      schedule = std::move(least->schedule);
    }
    return std::optional<Candidate>(
        {*std::move(schedule), algorithm_->name(), Limit::kHeuristic, {}});
  }

  const Algorithm algorithm_;
  const Instance instance_;       // a copy: the solution may outlive the solve
  std::optional<Candidate> own_;  // written by Prepare()
};

class BudgetSolver final : public Solver {
 public:
  explicit BudgetSolver(std::unique_ptr<const BudgetAlgorithm> algorithm)
      : algorithm_(std::move(algorithm)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    return algorithm_->WorkingBytes(instance);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ASSIGN_OR_RETURN(const std::optional<LeastPlan> least,
                     algorithm_->FindLeast(instance, context));
    if (!least.has_value()) return std::optional<int64_t>();
    return least->memory_bytes;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    auto solution = std::make_unique<BudgetSolution>(algorithm_, instance);
    RETURN_IF_ERROR(solution->Prepare(context));
    context.Report(1);
    return solution;
  }

 private:
  const Algorithm algorithm_;
};

}  // namespace

std::unique_ptr<Solver> MakeBudgetSolver(std::unique_ptr<const BudgetAlgorithm> algorithm) {
  return std::make_unique<BudgetSolver>(std::move(algorithm));
}

}  // namespace stowage

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

class SolutionByBudget final : public Solution {
 public:
  SolutionByBudget(int64_t own_bytes, SolveBudget solve, std::optional<Candidate> own)
      : own_bytes_(own_bytes), solve_(std::move(solve)), own_(std::move(own)) {}

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes == own_bytes_) return own_;
    return solve_(memory_bytes, context);
  }

  bool solves_each_budget() const override { return true; }

 private:
  const int64_t own_bytes_;
  const SolveBudget solve_;
  const std::optional<Candidate> own_;
};

// 1. The algorithm. 2. If it finds nothing that fits, its least plan: that exists for every budget
// of LeastBytes() or more, as Solver::Solve() promises.
absl::StatusOr<std::optional<Candidate>> Find(const BudgetAlgorithm& algorithm,
                                              const Instance& instance, int64_t memory_bytes,
                                              const SolveContext& context) {
  ASSIGN_OR_RETURN(std::optional<Schedule> schedule,
                   algorithm.Find(instance, memory_bytes, context));
  if (!schedule.has_value() || !FitsWithin(instance, *schedule, memory_bytes)) {
    ASSIGN_OR_RETURN(std::optional<LeastPlan> least, algorithm.FindLeast(instance, context));
    if (!least.has_value() || least->memory_bytes > memory_bytes ||
        !FitsWithin(instance, least->schedule, memory_bytes)) {
      return std::optional<Candidate>();
    }
    schedule = std::move(least->schedule);
  }
  return std::optional<Candidate>(
      {*std::move(schedule), algorithm.name(), Guarantee::kHeuristic, {}});
}

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
    // Copies: the solution may outlive the solve.
    const auto solve = [algorithm = algorithm_, instance](int64_t memory_bytes,
                                                          const SolveContext& query) {
      return Find(*algorithm, instance, memory_bytes, query);
    };
    return SolveByBudget(instance.platform().memory_bytes, solve, context);
  }

 private:
  const Algorithm algorithm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Solution>> SolveByBudget(int64_t own_bytes, SolveBudget solve,
                                                              const SolveContext& context) {
  ASSIGN_OR_RETURN(std::optional<Candidate> own, solve(own_bytes, context));
  context.Report(1);
  return std::make_unique<SolutionByBudget>(own_bytes, std::move(solve), std::move(own));
}

std::unique_ptr<Solver> MakeBudgetSolver(std::unique_ptr<const BudgetAlgorithm> algorithm) {
  return std::make_unique<BudgetSolver>(std::move(algorithm));
}

}  // namespace stowage

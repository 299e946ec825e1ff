// What solvers share that solve each budget separately. All offloading solvers do, because the
// transfers that a link can hide depend on the budget.
#ifndef STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_
#define STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"
#include "solver/model/schedule.h"

namespace stowage {

// The best schedule within a budget, from a solve of its own; as Solution::ScheduleWithin().
using SolveBudget = std::function<absl::StatusOr<std::optional<Candidate>>(
    int64_t memory_bytes, const SolveContext& context)>;

// Solves the instance's own budget now and every other one in ScheduleWithin(). Reports all of the
// progress. Errors: those of `solve`, which has to own what it uses.
absl::StatusOr<std::unique_ptr<const Solution>> SolveByBudget(int64_t own_bytes, SolveBudget solve,
                                                              const SolveContext& context);

// The schedule with the lowest peak that an algorithm can produce.
struct LeastPlan {
  int64_t memory_bytes = 0;  // an upper bound on its peak
  Schedule schedule;
};

// An algorithm for one budget. Stateless and thread-safe, like a Solver.
class BudgetAlgorithm {
 public:
  virtual ~BudgetAlgorithm() = default;

  virtual const char* name() const = 0;  // as in the catalog; static
  // Same contract as Solver::WorkingBytes().
  virtual int64_t WorkingBytes(const Instance& instance) const = 0;
  // nullopt: no amount of memory is enough. Errors: CANCELLED once `context.stop` is set.
  virtual absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                             const SolveContext& context) const = 0;
  // A schedule within `memory_bytes`, or nullopt if the algorithm finds none; the caller then uses
  // the least plan. Errors: CANCELLED once `context.stop` is set.
  virtual absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance,
                                                       int64_t memory_bytes,
                                                       const SolveContext& context) const = 0;
};

// A solver that returns Find()'s schedule, or the least plan where Find() returns none or a
// schedule that does not fit in the simulation. Every schedule is simulated before it is returned.
std::unique_ptr<Solver> MakeBudgetSolver(std::unique_ptr<const BudgetAlgorithm> algorithm);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_

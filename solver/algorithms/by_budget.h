// Solvers that look for one budget at a time: all that offload, since what a link can hide differs
// from budget to budget.
#ifndef STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_
#define STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"
#include "solver/model/schedule.h"

namespace stowage {

// A schedule that needs no more memory than any other the algorithm has.
struct LeastPlan {
  int64_t memory_bytes = 0;  // its peak is that at most
  Schedule schedule;
};

// What such an algorithm has to say. Stateless and thread-safe, like a Solver.
class BudgetAlgorithm {
 public:
  virtual ~BudgetAlgorithm() = default;

  virtual const char* name() const = 0;
  // As Solver::WorkingBytes().
  virtual int64_t WorkingBytes(const Instance& instance) const = 0;
  // nullopt: no memory is enough. Errors of both: CANCELLED once `context.stop` is set.
  virtual absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance,
                                                             const SolveContext& context) const = 0;
  // A schedule within `memory_bytes`, which is what FindLeast() says or more; nullopt: it sees none
  // and would leave it at the least.
  virtual absl::StatusOr<std::optional<Schedule>> Find(const Instance& instance,
                                                       int64_t memory_bytes,
                                                       const SolveContext& context) const = 0;
};

// Every budget gets what Find() finds, and where that is nothing the least plan, if it fits.
std::unique_ptr<Solver> MakeBudgetSolver(std::unique_ptr<const BudgetAlgorithm> algorithm);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_BY_BUDGET_H_

// What memory buys: the answers for many budgets, from as few solves as the solver allows. A
// solution answers every budget down to its serves_from_bytes(); only below that another solve is
// made, for the highest budget that is left.
#ifndef STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_
#define STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// Every feasible point comes from a schedule that was simulated on the exact chain and fits its
// budget; a lower budget's schedule stands in where it is faster. Sizes are not rounded to
// granules, times as the options say. Errors: as AnswerRequest(). Requires:
// RequestViolations(request) is empty. Thread-safe.
absl::StatusOr<Frontier> FindFrontier(const FrontierRequest& request, const SolveContext& context);

// Index of the knee of the points, which must be as FindFrontier() makes them; nullopt where there
// is none: fewer than three are feasible, or none lies below the line.
std::optional<size_t> KneeOf(const std::vector<FrontierPoint>& points);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_

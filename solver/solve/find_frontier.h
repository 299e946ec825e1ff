// The frontier of a chain: the makespan for each of many memory budgets, from as few solves as the
// solver allows. One Solution answers all budgets down to its serves_from_bytes(); the next solve
// is for the highest budget below that.
#ifndef STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_
#define STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// Each feasible point comes from a schedule that was simulated on the exact chain and fits the
// point's budget; where a lower budget has a faster schedule, that one is used. Sizes are not
// rounded to granules; times are, as the options say. Without budgets in the request, they are
// spaced geometrically from the least memory to that of storing everything.
// Errors: as AnswerRequest(). Requires: RequestViolations(request) is empty. Thread-safe.
absl::StatusOr<Frontier> FindFrontier(const FrontierRequest& request, const SolveContext& context);

// The index of the knee: the feasible point farthest below the line from the first feasible point
// to the last, with log(memory) and seconds each scaled to 0..1. nullopt when no point lies below
// the line, as with fewer than three feasible points. Requires: points as FindFrontier() makes
// them. O(points).
std::optional<size_t> KneeOf(const std::vector<FrontierPoint>& points);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_FIND_FRONTIER_H_

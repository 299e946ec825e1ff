// The least memory of any schedule in the shape of forward_parts.h, whatever its transfers take.
//
// With everything that may leave on the host, what is left are the values kept for good. Before
// stage i, with value i-1 as a or ā of size I and A bytes kept, a budget of M is enough for
//   save i             if max(m_all(i), m_B(i)) <= M - A - I
//   checkpoint [i..j]  if max(m_∅(i..j), K(i,j)) <= M - A - I     (K: rotor_minimum.h)
// and keeping less is never worse, so that without a limit on the host the least A before each
// stage tells whether M is enough; with one, the least pairs of A and bytes on the host. The least
// M is found by bisection: O(L^2) a step after O(L^3) for K.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_LEAST_PLAN_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_LEAST_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/solver.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Which parts there may be.
enum class Recomputation { kNone, kParts };

// nullopt: there is no such schedule with at most kMaxOperations operations, however much memory.
// Where the host's memory is limited, the least that a search of bounded width finds.
// Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<LeastPlan>> FindLeastPlan(const Chain& chain, const Platform& platform,
                                                       Recomputation recomputation,
                                                       const SolveContext& context);
// An upper bound on what that allocates.
int64_t LeastPlanBytes(const Chain& chain, Recomputation recomputation);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_LEAST_PLAN_H_

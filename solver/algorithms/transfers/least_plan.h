// The least memory of any schedule with the structure of forward_parts.h, regardless of its time.
//
//   letter   meaning                                                     unit
//   M        memory budget                                               bytes
//   I        size of value i-1, the input of the next part: |a| or |ā|   bytes
//   A        values kept on the device until their backward, without I   bytes
//   H        values on the host                                          bytes
//   K(i,j)   least memory of recomputing part [i..j] (rotor_minimum.h)   bytes
//
// A state before stage i consists of the form of value i-1, A and H. With budget M it can be
// extended by
//   save i             if max(m_all(i), m_B(i)) <= M - A - I
//   recompute [i..j]   if max(m_∅(i..j), K(i,j)) <= M - A - I
// and then the input is kept, A + I, or offloaded, H + I. M is enough if some state passes the
// loss. Less A is never worse, so without a limit on host memory the least A for each i and form
// decides; with one, the Pareto front of (A, H), limited in size. The least M is found by
// bisection: O(L^2) per step after O(L^3) for K.
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

enum class Recomputation {
  kNone,  // every part is a saved stage
  kParts  // parts may be recomputed
};

// nullopt: no amount of memory allows a schedule of this structure with at most kMaxOperations
// operations. Exact without a limit on host memory; with one, an upper bound, because the search
// keeps a limited number of states. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<LeastPlan>> FindLeastPlan(const Chain& chain, const Platform& platform,
                                                       Recomputation recomputation,
                                                       const SolveContext& context);
// An upper bound on the bytes that FindLeastPlan() allocates.
int64_t LeastPlanBytes(const Chain& chain, Recomputation recomputation);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_LEAST_PLAN_H_

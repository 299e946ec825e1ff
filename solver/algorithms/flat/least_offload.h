// The least memory of a flat plan that may offload.
//
// Copies that overlap one piece take the least (OffloadPlan::ahead of 1). Let k be what the device
// keeps in front of a piece, x what the piece before it has on its way to the host, and y what the
// one before that had. A piece is possible within M where
//   k + x + sweep_need <= M        x leaves the device behind its last forward
//   k + x + y + backward_need <= M x is back, y is coming back
// and behind it (k, x, y) is (k + add, 0, x), or (k, add, x) where what it leaves is offloaded. Of
// two such states one dominates where its k, x and x + y are no larger. The least M is found by
// bisection.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_LEAST_OFFLOAD_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_LEAST_OFFLOAD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct LeastOffload {
  int64_t memory_bytes = 0;
  OffloadPlan plan;  // no pieces: a plan that offloads nothing
};

// States of a position that are kept.
inline constexpr size_t kMostStates = 64;

// Exact, unless a stage has more than kMostStates states that do not dominate each other: then an
// upper bound, the memory of the plan. O(arcs * states) a step of the bisection.
// Errors: CANCELLED once `context.stop` is set.
absl::StatusOr<LeastOffload> FindLeastOffload(const PlanArcs& arcs, const SolveContext& context);

// The most that it allocates.
int64_t FindLeastOffloadBytes(int positions);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_LEAST_OFFLOAD_H_

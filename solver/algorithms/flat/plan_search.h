// The fastest flat plan within a budget: a search over labels, position by position.
//
// A label is a way to a position: the bytes that the device keeps there, and the ticks so far. Of
// two labels of a position the one that keeps no more and took no longer dominates, so labels form
// a front: bytes rise, ticks fall. Labels that RemainingTime says cannot beat the best plan so far
// are left out. Rounds keep ever more labels a position; a round that left out no other label has
// proved its plan, or the best before it.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct FoundPlan {
  std::vector<Piece> pieces;    // one for each arc
  std::vector<bool> offloaded;  // by piece, where arcs say so
  int64_t ticks = 0;
  int64_t least_ticks = 0;  // no plan of the class takes less; equal to `ticks` when proved
};

// nullopt: no plan fits. Calls `improved`, if it is not empty, with each plan that is faster than
// the ones before it. Errors: CANCELLED once `context.stop` is set.
absl::StatusOr<std::optional<FoundPlan>> FindFastestPlan(
    const PlanArcs& arcs, int64_t memory_bytes, const SolveContext& context,
    const std::function<void(const FoundPlan&)>& improved);

// The most that it allocates where it may use up to `max_bytes` (SolveContext::working_bytes), of
// which it needs those for `max_bytes` of 0.
int64_t FindFastestPlanBytes(int positions, int64_t max_bytes);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_PLAN_SEARCH_H_

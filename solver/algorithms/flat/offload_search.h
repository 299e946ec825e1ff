// The fastest flat plan that may offload: candidates, each simulated, then branch and bound.
//
// 1. The fastest plan that offloads nothing; where nothing else fits, the plan of the least memory.
// 2. The plans that are best at prices of the link (priced_arcs.h), which are found by bisection;
//    where copies on their way do not fit, those of a smaller budget. Each with every distance up
//    to kMaxAhead. First among plans with short segments, which overlap copies more evenly.
// 3. Single changes of the best plan so far, as long as they gain and time is left.
// 4. Branch and bound over all plans, piece by piece, with the bound of the best prices on the
//    rest. A limit on its work stops it in long chains; where it ends, the plan is proved.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_OFFLOAD_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_OFFLOAD_SEARCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// The longest distance of a copy from its piece (OffloadPlan::ahead) that is tried.
inline constexpr int kMaxAhead = 8;

struct FoundOffload {
  OffloadPlan plan;
  double seconds = 0;        // of its simulation
  double least_seconds = 0;  // no plan of the class takes less; equal to `seconds` when proved
};

struct OffloadQuestion {
  const Chain& chain;
  const Platform& platform;  // with a link; its memory_bytes is ignored
  const PlanArcs& arcs;      // of plans that offload nothing
  const PlanArcs& offloads;  // of plans that may: some or all of these
  std::span<const std::unique_ptr<const PlanArcs>> narrower;  // some of `offloads`
  int64_t memory_bytes = 0;
};

// Within 10^-9 of the makespan. nullopt: no plan fits, or none is found. Calls `improved`, if it is
// not empty, with each plan that is faster than the ones before it.
// Errors: CANCELLED once `context.stop` is set.
absl::StatusOr<std::optional<FoundOffload>> FindFastestOffload(
    const OffloadQuestion& question, const SolveContext& context,
    const std::function<void(const FoundOffload&)>& improved);

// The least memory with which it finds a plan. Exact up to what FindLeastOffload() says, without a
// limit on host memory; with one, that of plans that offload nothing where the plan of the least
// memory needs more of the host. Errors: CANCELLED once `context.stop` is set.
absl::StatusOr<int64_t> LeastOffloadBytes(const OffloadQuestion& question,
                                          const SolveContext& context);

// The most that either allocates, as FindFastestPlanBytes() has it, with so many arcs of plans that
// may offload.
int64_t FindFastestOffloadBytes(int positions, int64_t arcs, int64_t max_bytes);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_OFFLOAD_SEARCH_H_

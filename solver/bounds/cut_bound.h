// A lower bound on the makespan under a memory limit: the cheapest mix of recomputation and
// transfers at every cut of the chain. The source file states the bound and its proof.
#ifndef STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// A lower bound in seconds on the makespan of every schedule within the platform's limits, up to
// the rounding of sums. 0 where memory is sufficient at every cut. O(stages * log(stages)).
// Requires: Violations() of chain and platform are empty; no stage is input_unread. Thread-safe.
double CutBoundSeconds(const Chain& chain, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_

// What no schedule can go below for lack of memory: recomputation and transfers weighed against
// each other at every cut of the chain. The proof is in the source file.
#ifndef STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// At most the makespan of any schedule within the platform's limits, up to the rounding of sums; 0
// where no cut asks for anything. O(stages * log(stages)). Thread-safe.
double CutBoundSeconds(const Chain& chain, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_CUT_BOUND_H_

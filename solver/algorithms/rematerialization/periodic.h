// Equal segments, as PyTorch's checkpoint_sequential cuts them: the chain of L stages is divided
// into n segments of floor(L/n) stages, the last one taking what is left over. The first sweep
// keeps only the input of each segment but the last, which is saved; the backward of a segment
// first runs its forward again, saving. (RR-9302 section 5.3, "sequential".)
//
// A `no_recompute` stage is saved in the first sweep and cuts its segment in two.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_

#include <memory>

#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Requires: 1 <= segments <= chain.length(). O(stages).
Schedule PeriodicSchedule(const Chain& chain, int segments);

// Tries option `segments`, or every count where it is 0, and keeps the fastest that fits, of
// equally fast ones that with the least memory.
std::unique_ptr<Solver> MakePeriodic();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_

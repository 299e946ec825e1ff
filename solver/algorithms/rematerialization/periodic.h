// Checkpoints at equal distances, as PyTorch's checkpoint_sequential places them (RR-9302, section
// 5.3, "sequential"). The chain of L stages is divided into n segments of floor(L/n) stages; the
// last one takes the remainder and the loss. The first sweep saves the last segment and keeps only
// the input of every other one. Before the backward of such a segment its forward runs again and
// saves.
//
// A `no_recompute` stage is saved in the first sweep and splits its segment in two.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_

#include <memory>

#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Requires: 1 <= segments <= chain.length(). O(stages).
Schedule PeriodicSchedule(const Chain& chain, int segments);

// Segments of about half of what is left, the last one of at most `leaf` stages; a segment that is
// recomputed is halved likewise, down to parts of at most `leaf` stages (Griewank's logarithmic
// scheme). The chain is cut where the checkpoint is smallest among the middle half of the stages.
// It holds O(log(L / leaf)) checkpoints and one part, where periodic schedules hold sqrt(L) of
// each, and takes O(L log(L / leaf)) time and operations. Requires: leaf >= 1.
Schedule HalvingSchedule(const Chain& chain, int leaf);

// Tries the number of segments of option `segments`, or every number if it is 0, and returns the
// fastest schedule that fits; of equally fast ones the one with the lowest peak. O(L^2) time.
std::unique_ptr<Solver> MakePeriodic();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_PERIODIC_H_

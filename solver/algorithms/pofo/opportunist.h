// `opportunist` of POFO's section 5.1, a greedy heuristic close to SuperNeurons.
//
// It goes through the forward phase once. When the link is free, it saves the next stage and starts
// copying its input and output to the host. Until those copies complete, stages only pass through:
// they form a part that is recomputed in the backward phase. It stops offloading once all remaining
// stages can be saved within the budget. Each part is recomputed by the fastest persistent sequence
// (part_sequences.h) within the memory that is free then; where one does not fit there is no
// schedule. No guarantee. O(L^3) time at worst.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeOpportunist();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_

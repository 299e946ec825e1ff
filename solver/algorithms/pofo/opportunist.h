// Keeps the link busy: `opportunist` of POFO's section 5.1, close to what SuperNeurons does.
//
// A stage is saved, and its input and output start for the host. The stages after it are only
// passed through for as long as those copies take; then the next one is saved and moved in the same
// way, until all that is left fits the memory as it is. Every group of stages passed through is run
// again in the backward phase as rotor would, with the whole memory. Where memory is too small for
// one of the groups it has no schedule.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeOpportunist();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_OPPORTUNIST_H_

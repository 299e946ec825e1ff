// Revolve: the optimum of automatic differentiation for heterogeneous chains, the "revolve
// strategy" that RR-9302 section 5.3 compares with: only outputs are kept, FORWARD_SAVE comes right
// before each backward. All but the last forward of the chain therefore run twice at least, however
// much memory there is. It is rotor's program without the choice to save; a `no_recompute` stage,
// which must be saved the one time it runs, is saved in the first sweep and cuts the chain.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^3 S) time at most, O(L^2 S) memory.
std::unique_ptr<Solver> MakeRevolve();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_

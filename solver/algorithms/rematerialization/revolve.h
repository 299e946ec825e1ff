// Revolve: the optimal strategy of automatic differentiation on heterogeneous chains, the "revolve"
// that RR-9302, section 5.3 compares with. Checkpoints hold outputs only, and FORWARD_SAVE comes
// right before its backward. Every forward except the last therefore runs at least twice, with any
// amount of memory. The dynamic program is rotor's without the case of saving (part_sizes.h,
// Saving::kWhereForced). A `no_recompute` stage is saved the one time it runs and splits the chain.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^3 S) time at most, O(L^2 S) memory.
std::unique_ptr<Solver> MakeRevolve();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_REVOLVE_H_

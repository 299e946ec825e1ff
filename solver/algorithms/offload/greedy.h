// Moves the first values of the chain: Theorem 2 of the offloading paper (Euro-Par 2020), rounded
// up to whole values.
//
// If copies could stop anywhere and free memory as they go, the schedule that moves the first
// M_peak - M bytes of the chain, and no more, would be the best of those that recompute nothing.
// Here the first k values move, with k the least for which their sum reaches M_peak - M and the
// schedule fits; values that may not leave the device are passed over.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeOffloadGreedy();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_

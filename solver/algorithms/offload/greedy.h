// Offloads the first values of the chain: Theorem 2 of the offloading paper (Euro-Par 2020), with
// whole values.
//
// In the relaxation, where copies can be interrupted and free memory continuously, offloading
// exactly the first M_peak - M bytes of the chain is optimal among the schedules without
// recomputation. Here the first k values are offloaded, with the smallest k for which their sum is
// at least M_peak - M and the schedule fits. Values that may not leave the device are skipped.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^2) time, O(L) memory.
std::unique_ptr<Solver> MakeOffloadGreedy();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_GREEDY_H_

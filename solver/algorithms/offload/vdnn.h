// Offloads values that are read by long forwards: the rule of VDNN and VDNN++, generalized as in
// the offloading paper (Euro-Par 2020, section 6.1) to chains whose layers have no types.
//
// The ratio of value l is u_F^(l+1) / |x_l|: the duration of the forward that reads it divided by
// its size. For every threshold, two sets are tried: all values with a ratio of at least the
// threshold, and every other one of these. The fastest schedule that fits is used.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^2) time, O(L) memory; at most about 1000 thresholds.
std::unique_ptr<Solver> MakeOffloadVdnn();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_

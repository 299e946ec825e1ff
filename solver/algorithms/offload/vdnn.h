// Moves values that are read by long forwards: the rule of VDNN and VDNN++ as the offloading paper
// (Euro-Par 2020, section 6.1) has it for chains whose layers carry no names.
//
// With u_F / |x| of the forward that reads a value, and for every threshold: all values at or above
// it, and every other one of them. The fastest of these schedules that fits is taken.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeOffloadVdnn();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_VDNN_H_

// `autocapper` of POFO's section 5.1: rotor's sequence for more memory than the budget, made to fit
// by offloading.
//
// The inner step, `capper`, takes rotor's sequence for a limit M'. While its peak exceeds the
// budget, it takes the operation with the highest need and offloads, of the values that wait on the
// device during it, the one of lowest index. `autocapper` tries 40 limits M', evenly spaced from
// the budget (or rotor's least memory, if that is higher) to the peak of storing everything, and
// keeps the schedule that the simulator finds fastest. No guarantee. Costs one solve of rotor and
// 40 placements.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeAutocapper();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_

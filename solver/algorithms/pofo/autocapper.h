// A rematerialization for more memory than there is, made to fit by moving values to the host:
// `autocapper` of POFO's section 5.1.
//
// Its inner `capper` takes the fastest sequence without offloading for a limit M', finds the
// operation that needs most and moves the value of the lowest index that waits on the device then,
// until the sequence fits. `autocapper` tries 40 limits, evenly spaced from the budget (or the
// least that rotor needs, if that is more) to what storing everything takes, and keeps the schedule
// that is simulated fastest.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeAutocapper();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_AUTOCAPPER_H_

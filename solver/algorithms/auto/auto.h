// "auto", the default: asks every solver whose memory need allows it and keeps the schedule with
// the least makespan on the instance, of equally fast ones that which promises most. A dynamic
// program that does not fit is asked with fewer memory slots, as long as enough are left to be
// worth it, and one whose class another has searched to the end is not asked. Where everything can
// be stored nobody else is asked.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_

#include <memory>
#include <span>

#include "solver/algorithms/solver.h"

namespace stowage {

// Chooses among `solvers`, which outlive the result; those that mix modes (auto itself among them)
// are passed over, Mixed Mode is asked where a chain has a graph mode.
std::unique_ptr<Solver> MakeAuto(std::span<const SolverInfo> solvers);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_

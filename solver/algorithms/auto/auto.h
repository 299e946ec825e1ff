// "auto", the default solver. It runs every solver whose memory need allows it, keeps the schedule
// with the least makespan on the instance (ties go to the stronger guarantee, then to the lower
// peak), and improves it by local search where the platform has a link.
//
// A dynamic program whose table does not fit runs with fewer memory slots, if enough remain to be
// useful (select_solvers.h). A solver is skipped when another one has solved its class exactly.
// When everything can be stored, that is the answer and no other solver runs. Chains with a graph
// mode: see auto_modes.h.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_

#include <memory>
#include <span>

#include "solver/algorithms/solver.h"

namespace stowage {

// Chooses among `solvers`, which must outlive the result. Entries that mix modes, such as auto
// itself, are skipped. Time: the sum of theirs, and a bounded local search.
std::unique_ptr<Solver> MakeAuto(std::span<const SolverInfo> solvers);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_H_

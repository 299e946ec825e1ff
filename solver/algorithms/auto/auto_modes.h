// `auto` for chains with a graph mode. Once every stage has its mode such a chain is a plain one
// (model/modes.h), for which plain `auto` finds the best schedule of all solvers, offloading among
// them, and lets whoever is active use all memory that is free at the time, where Mixed Mode's
// shares are fixed. So five choices of modes are tried: all eager, the fastest with all memory,
// each unit in the mode in which it needs less, all that can in graph mode but the units that need
// the most (as many of them as rotor finds best), and Mixed Mode's.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// `plain` answers for chains without graph mode, which it is asked at once.
std::unique_ptr<Solver> MakeAutoOverModes(std::unique_ptr<const Solver> plain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_

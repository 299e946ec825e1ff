// `auto` for chains with a graph mode. Once every stage has its mode, such a chain is a plain one
// (model/modes.h), and plain `auto` finds its best schedule, with all solvers, offloading included.
// Unlike Mixed Mode's fixed shares, that lets each part of the chain use all memory that is free at
// the time.
//
// It solves the plain chain of each of these choices of modes, and keeps the fastest schedule:
//   1. every unit in the mode that is fastest with unlimited memory
//   2. every unit in the mode in which it needs less memory by itself
//   3. every unit in eager mode
//   4. the choice that needs the least memory, as far as a search finds it (modes/mode_search.h)
//   5. the modes of Mixed Mode's schedule, which is a candidate itself
//   6. the choice that is fastest with rotor, as far as a search from 1..5 finds it
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// `plain` solves plain chains; requests for chains without a graph mode go to it unchanged.
std::unique_ptr<Solver> MakeAutoOverModes(std::shared_ptr<const Solver> plain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_AUTO_MODES_H_

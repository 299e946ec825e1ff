// Tells chains with a graph mode from plain ones at the one place where a solver is asked.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_BY_GRAPH_MODE_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_BY_GRAPH_MODE_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// `plain` solves chains without a graph mode, unchanged; `modes` solves the others, and only those.
std::unique_ptr<Solver> MakeByGraphMode(std::shared_ptr<const Solver> plain,
                                        std::unique_ptr<const Solver> modes);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_BY_GRAPH_MODE_H_

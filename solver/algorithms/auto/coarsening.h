// `auto` for chains of any length. Up to a length, a chain is solved as it is. Of a longer one only
// the solvers that are fast enough are asked as it is (full_length.h). For the others it is merged
// to fewer stages (merged_chain.h), solved like that, and expanded; a local search then refines
// the schedule stage by stage. Where the memory is too tight to save groups of stages, they are
// compact. README.md, "Long chains", lists the steps.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_COARSENING_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_COARSENING_H_

#include <memory>
#include <span>

#include "solver/algorithms/solver.h"

namespace stowage {

// `direct` solves plain chains with all of `solvers`, which must outlive the result; requests for
// short ones go to it unchanged.
std::unique_ptr<Solver> MakeAutoByCoarsening(std::unique_ptr<const Solver> direct,
                                             std::span<const SolverInfo> solvers);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_COARSENING_H_

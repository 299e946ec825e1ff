// The list of all solvers. A new solver is its files and one entry here: ListSolvers, the help text
// and the conformance tests read it.
#ifndef STOWAGE_SOLVER_SOLVE_CATALOG_H_
#define STOWAGE_SOLVER_SOLVE_CATALOG_H_

#include <span>

#include "absl/strings/string_view.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// Every solver, "auto" first. Thread-safe, constant.
std::span<const SolverInfo> AllSolvers();

// The entry of that name ("auto" for an empty one), or null.
const SolverInfo* FindSolver(absl::string_view name);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_CATALOG_H_

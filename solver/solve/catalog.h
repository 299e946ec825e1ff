// The catalog: a constant list of all solvers. A new solver is its files and one entry in
// catalog.cc; ListSolvers, the help text, the cache keys (by version) and the conformance tests
// read the list.
#ifndef STOWAGE_SOLVER_SOLVE_CATALOG_H_
#define STOWAGE_SOLVER_SOLVE_CATALOG_H_

#include <span>

#include "absl/strings/string_view.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// All solvers, "auto" first. Constant, thread-safe.
std::span<const SolverInfo> AllSolvers();

// The entry of that name ("auto" for an empty one), or null. Thread-safe.
const SolverInfo* FindSolver(absl::string_view name);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_CATALOG_H_

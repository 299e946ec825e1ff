// The list of all solvers. A new solver is its files and one entry here: ListSolvers, the help text
// and the conformance tests read it.
#ifndef STOWAGE_SOLVER_ALGORITHMS_CATALOG_H_
#define STOWAGE_SOLVER_ALGORITHMS_CATALOG_H_

#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/frontier.h"
#include "solver/model/validate.h"

namespace stowage {

// Every solver, "auto" first. Thread-safe, constant.
std::span<const SolverInfo> AllSolvers();

// The entry of that name ("auto" for an empty one), or null.
const SolverInfo* FindSolver(absl::string_view name);

// All that is wrong with a request, an unknown solver included.
std::vector<FieldViolation> RequestViolations(const SolveRequest& request);
std::vector<FieldViolation> RequestViolations(const FrontierRequest& request);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_CATALOG_H_

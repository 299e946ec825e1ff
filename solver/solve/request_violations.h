// What is wrong with a request: every violated field at once, each with its path, what is wrong
// with it and what would be right. Called once, at the edge (service, command line, client
// library); what stands behind may assume that the list is empty. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_
#define STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_

#include <vector>

#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

// Chain, platform, options and the solver's name. O(stages).
std::vector<FieldViolation> RequestViolations(const SolveRequest& request);
std::vector<FieldViolation> RequestViolations(const FrontierRequest& request);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_

// Validation of requests. Reports all violations at once; each names the field by its path, its
// value and what would be valid, as in
//   options.segments: "is -1; it must be from 1 to the chain's 8 stages, or 0 for the best of all"
// Called once, where a request enters (service, command line, client library). Code behind that
// requires that the list is empty. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_
#define STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

// Checks chain, platform, options and the solver's name. O(stages).
std::vector<FieldViolation> RequestViolations(const SolveRequest& request);
// Those of the solver's name alone, for a caller that has no chain yet.
std::vector<FieldViolation> SolverViolations(const std::string& solver);
// The same as of a SolveRequest, and points and budgets.
std::vector<FieldViolation> RequestViolations(const FrontierRequest& request);
// The job, the devices, the options and the solver's name. O(stages).
std::vector<FieldViolation> RequestViolations(const AdmitRequest& request);
// Of those, the ones of counts, for a caller that reads these before the data.
std::vector<FieldViolation> TooMany(size_t components, size_t devices);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_REQUEST_VIOLATIONS_H_

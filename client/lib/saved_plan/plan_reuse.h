// Whether a plan that an earlier start of a job was trained with still serves. Pure, thread-safe.
#ifndef STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_REUSE_H_
#define STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_REUSE_H_

#include <string>

#include "absl/status/statusor.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// A plan, and what it was made for.
struct EarlierPlan {
  SolveRequest request;
  Answer answer;
  int solver_version = 0;  // SolverVersion() of the answer's solver when it was made
};

// 0 for a solver that this program does not have.
int SolverVersion(const std::string& solver);

// The plan's schedule as an answer to `now`, with prediction and explanation for its chain, where
// nothing of what a plan depends on (PlanDifference()) differs, nor its solver's version. Times may
// differ; the schedule, simulated on the chain of `now`, must fit, and its overhead may be a
// quarter and 0.01 more than it was, or 0.05 where it copies. Errors: FAILED_PRECONDITION, without
// a subject: "was made for memory 4.00 GiB, now 5.00 GiB".
absl::StatusOr<Answer> ReusePlan(const EarlierPlan& plan, const SolveRequest& now);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_REUSE_H_

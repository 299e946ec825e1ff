// The last answer of a job, kept in a directory of its own, so that a restarted job starts at once.
#ifndef STOWAGE_CLIENT_LIB_PLAN_FILE_H_
#define STOWAGE_CLIENT_LIB_PLAN_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stowage/v1/plan.pb.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Of the chain's name, its length and the budget: "resnet101-38-1024498560.plan".
std::string PlanFileName(const v1::SolveRequest& request);

// Replaces the file of `plan`'s request in `directory`, which it makes if need be, at one blow:
// whoever reads it, even after a crash, finds the old one or the new one. Errors: UNAVAILABLE, with
// the path.
absl::Status SavePlan(const std::string& directory, v1::SavedPlan plan);

// What was saved, where it does for `request`: the same version of the solver, the same options,
// budget and sizes; times may differ, but the schedule, simulated on the request's own chain, must
// fit and lose no more than 1 % of the makespan more than it did. Its prediction is for the
// request's chain. Errors: NOT_FOUND where there is no file; FAILED_PRECONDITION, with the path and
// the reason, where it is of no use; DATA_LOSS where it cannot be read.
absl::StatusOr<v1::SavedPlan> LoadPlan(const std::string& directory,
                                       const v1::SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_PLAN_FILE_H_

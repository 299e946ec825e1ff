// The last answer that a job trained with, saved in a directory so that a restarted job starts at
// once. The format is proto/stowage/v1/plan.proto.
#ifndef STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_FILE_H_
#define STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

struct SavedPlan {
  SolveResult result;           // feasible
  bool solved_locally = false;  // without a server: perhaps with less memory and time
};

// Named after the chain, its length and the budget: "resnet101-38-1024498560.plan".
std::string PlanFileName(const SolveRequest& request);

// Saves the plan for `request` in `directory`, which is created if necessary. Replaces the file
// atomically: a reader finds the old plan or the new one, even after a crash. Of concurrent calls
// the last wins. Errors: UNAVAILABLE, with the path.
absl::Status SavePlan(const std::string& directory, const SolveRequest& request,
                      const SavedPlan& plan);

// The saved plan, if it serves `request` by the rules of ReusePlan(). Prediction and explanation
// are for the request's chain. Errors: NOT_FOUND where there is no plan for such a chain;
// FAILED_PRECONDITION, with the path and the reason, where the plan does not serve the request, as
// in "... the plan of 24 Nov 2026 was made for memory 4.00 GiB, now 5.00 GiB"; DATA_LOSS where the
// file cannot be read.
absl::StatusOr<SavedPlan> LoadPlan(const std::string& directory, const SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_SAVED_PLAN_PLAN_FILE_H_

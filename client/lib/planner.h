// Finds a schedule for a training job whatever the state of the service: in the plan file of the
// job's last run, from a server, or by solving in this process. Then reports what was measured.
// A program built without gRPC has neither plan files nor servers: it solves here, and notes that.
#ifndef STOWAGE_CLIENT_LIB_PLANNER_H_
#define STOWAGE_CLIENT_LIB_PLANNER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/local_scheduler.h"
#include "client/lib/rpc/credentials.h"
#include "proto/service/execution_report.h"
#include "proto/service/results.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

struct PlannerOptions {
  std::vector<std::string> servers = {"127.0.0.1:50051"};  // as in RemoteOptions; empty: none
  Credentials credentials;
  double patience_seconds = 10;  // for the servers, all attempts together
  std::string plan_cache;        // directory of plan files; empty: none
  LocalOptions local;            // of the solve in this process
};

enum class PlanSource { kPlanFile, kServer, kLocal };

struct PlannedAnswer {
  SolveResult result;  // may be infeasible
  PlanSource source = PlanSource::kServer;
  // A sentence for each source that failed, and for a plan that could not be saved.
  std::vector<std::string> notes;
};

// Tries, in this order: the plan file, unless its plan was solved without a server; the servers,
// again and again while `patience_seconds` last; the plan file however it was solved; a solve in
// this process. Saves a new feasible answer in `plan_cache`. Errors: INVALID_ARGUMENT with every
// violated field, from the first source that finds any; those of LocalScheduler, after the notes.
// Thread-safe.
absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options, const SolveRequest& request);

// Tells the servers what the job measured under the plan; waits for them for 2 s at most. Errors:
// those of RemoteScheduler; UNIMPLEMENTED in a program built without gRPC. Thread-safe.
absl::Status ReportExecution(const PlannerOptions& options, const ExecutionReport& report);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_PLANNER_H_

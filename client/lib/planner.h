// A schedule for a training job, whatever the state of the service: from the plan file of its last
// run, from a server, or solved here.
#ifndef STOWAGE_CLIENT_LIB_PLANNER_H_
#define STOWAGE_CLIENT_LIB_PLANNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/credentials.h"
#include "client/lib/local.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

struct PlannerOptions {
  std::string server = "127.0.0.1:50051";  // host:port or unix:PATH; empty: none is asked
  Credentials credentials;
  double patience_seconds = 10;  // with the server, all attempts together
  std::string plan_cache;        // a directory; empty: no plan file
  LocalOptions local;            // the solve in this process, after that
};

enum class PlanSource { kPlanFile, kServer, kLocal };

struct PlannedAnswer {
  v1::SolveResponse response;  // may be INFEASIBLE
  PlanSource source = PlanSource::kServer;
  // A sentence for each source that was tried and did not do, and for a plan that was not saved.
  std::vector<std::string> notes;
};

// Asks the plan file, unless what it has was solved without a server, then the server, again and
// again where that may help and as long as the patience lasts, then takes the plan file at any
// rate, then solves here. Only what is wrong with the request itself is an error at once. Errors:
// INVALID_ARGUMENT with every violated field; those of SolveLocally(), after the notes.
// Thread-safe.
absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options,
                                       const v1::SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_PLANNER_H_

// The scheduler as client programs see it: requests and answers are domain types, and the caller
// does not depend on who computes them. RemoteScheduler calls a server, LocalScheduler solves in
// this process and builds without gRPC and protobuf.
#ifndef STOWAGE_CLIENT_LIB_SCHEDULER_H_
#define STOWAGE_CLIENT_LIB_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/service/execution_report.h"
#include "proto/service/results.h"
#include "solver/model/answer.h"
#include "solver/model/explanation.h"
#include "solver/model/request.h"
#include "solver/model/verdict.h"

namespace stowage {

// How one Solve runs. The callbacks run on the calling thread before Solve() returns; each may be
// empty.
struct SolveCall {
  std::optional<double> timeout_seconds;  // unset: the scheduler's default

  std::function<void(int64_t before)> queued;  // solves ahead of this one in the queue
  std::function<void(absl::string_view solver, double fraction)> running;  // 0..1 done
  std::function<void(const Answer& best)> improved;  // each better schedule than those before
  // The solve starts again, at another server or later, because of this; so do the above.
  std::function<void(const absl::Status& failure)> repeated;

  bool has_callbacks() const { return queued || running || improved || repeated; }
};

// Every call blocks. Thread-safe. Errors of every call: INVALID_ARGUMENT with every violated
// field, DEADLINE_EXCEEDED after the timeout, and those of the implementation. "Infeasible" is an
// answer, not an error. Answers lack what answer_message.h leaves out where they come from a
// server.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  virtual absl::StatusOr<SolveResult> Solve(const SolveRequest& request, const SolveCall& call) = 0;
  virtual absl::StatusOr<FrontierResult> FindFrontier(const FrontierRequest& request) = 0;
  virtual absl::StatusOr<ExplainedSimulation> Simulate(const SimulateRequest& request) = 0;
  // One verdict of each device, as AdmitResponse has them.
  virtual absl::StatusOr<std::vector<Verdict>> Admit(const AdmitRequest& request) = 0;
  // Errors: UNIMPLEMENTED without a server.
  virtual absl::Status ReportExecution(const ExecutionReport& report) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_SCHEDULER_H_

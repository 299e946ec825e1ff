// A scheduler on a server, or on the first of several that answers, over gRPC.
#ifndef STOWAGE_CLIENT_LIB_REMOTE_SCHEDULER_H_
#define STOWAGE_CLIENT_LIB_REMOTE_SCHEDULER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/rpc/failover_client.h"
#include "client/lib/scheduler.h"
#include "proto/service/execution_report.h"
#include "proto/service/results.h"

namespace stowage {

// Translates between domain types and messages; errors and thread-safety as FailoverClient.
// Errors of its own: DATA_LOSS for a response that this version cannot express.
class RemoteScheduler final : public Scheduler {
 public:
  explicit RemoteScheduler(const RemoteOptions& options) : rpc_(options) {}

  // Streams the server's events where `call` has callbacks.
  absl::StatusOr<SolveResult> Solve(const SolveRequest& request, const SolveCall& call) override;
  // The same without callbacks, with SolveResult::exported: the plan for a target by its name, and
  // for the layers of `stowage export --layers`.
  absl::StatusOr<SolveResult> SolveAndExport(const SolveRequest& request, const std::string& target,
                                             const std::string& layers);
  absl::StatusOr<FrontierResult> FindFrontier(const FrontierRequest& request) override;
  absl::StatusOr<ExplainedSimulation> Simulate(const SimulateRequest& request) override;
  absl::StatusOr<std::vector<Verdict>> Admit(const AdmitRequest& request) override;
  absl::Status ReportExecution(const ExecutionReport& report) override;

 private:
  FailoverClient rpc_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_REMOTE_SCHEDULER_H_

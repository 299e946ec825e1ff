// The service's RPCs as blocking calls on protobuf messages, at one or several servers: a call that
// no server has answered goes to the next one, and is repeated. RpcClient makes the single calls,
// Failover decides.
#ifndef STOWAGE_CLIENT_LIB_RPC_FAILOVER_CLIENT_H_
#define STOWAGE_CLIENT_LIB_RPC_FAILOVER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/rpc/credentials.h"
#include "client/lib/rpc/failover.h"
#include "client/lib/rpc/rpc_client.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

struct RemoteOptions {
  // Each host:port or unix:PATH; not empty. All serve the same, with the same credentials.
  std::vector<std::string> servers = {"127.0.0.1:50051"};
  std::optional<double> timeout_seconds;  // of one call with all its attempts; unset: none
  double patience_seconds = 3;            // for how long a call is repeated while no server answers
  Credentials credentials = {};
  // Called with what a server said that did not answer a call, or drains, where another one did;
  // from the calling thread. Not of streams, which report each failure. Empty: nobody is told.
  std::function<void(const absl::Status& failure)> passed_over = {};
};

// One connection to each server, made when it is first needed. Thread-safe. Errors of every call:
// those of the service, and UNAVAILABLE or DEADLINE_EXCEEDED with what every server said that was
// tried, and with the remedy.
class FailoverClient {
 public:
  // `seed`: of the order in which the servers are tried.
  explicit FailoverClient(const RemoteOptions& options, uint32_t seed = std::random_device{}());

  // These change nothing on a server, so they are repeated after the failures of IsRetryable(), as
  // Failover says, also where a server has begun to answer. `timeout_seconds`, if set, replaces the
  // options' timeout for this call.
  absl::StatusOr<v1::SolveResponse> Solve(const v1::SolveRequest& request,
                                          std::optional<double> timeout_seconds = std::nullopt);
  // The same. On the calling thread, calls `on_event` for each event before the answer, and
  // `on_repeat` with the last failure before it starts again: the events that follow are those of
  // a new solve.
  absl::StatusOr<v1::SolveResponse> SolveStream(
      const v1::SolveRequest& request, std::optional<double> timeout_seconds,
      absl::FunctionRef<void(const v1::SolveEvent&)> on_event,
      absl::FunctionRef<void(const absl::Status& failure)> on_repeat);
  absl::StatusOr<v1::FrontierResponse> Frontier(const v1::FrontierRequest& request);
  absl::StatusOr<v1::SimulateResponse> Simulate(const v1::SimulateRequest& request);
  absl::StatusOr<v1::AdmitResponse> Admit(const v1::AdmitRequest& request);
  absl::StatusOr<v1::ListSolversResponse> ListSolvers();

  // Counts in the server's metrics, so it is repeated only where no server can have seen it.
  absl::Status ReportExecution(const v1::ReportExecutionRequest& request);

 private:
  using Attempt = absl::FunctionRef<absl::Status(RpcClient&, std::optional<double>)>;
  absl::Status Call(std::optional<double> timeout_seconds, Failover::Rule may_repeat,
                    Attempt attempt);

  template <typename Request, typename Response>
  using Method = absl::StatusOr<Response> (RpcClient::*)(const Request&, std::optional<double>);
  // A call that may be repeated.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(Method<Request, Response> method, const Request& request,
                               std::optional<double> timeout_seconds = std::nullopt);

  const std::optional<double> timeout_seconds_;
  const std::function<void(const absl::Status& failure)> passed_over_;
  std::vector<std::unique_ptr<RpcClient>> servers_;  // immutable after construction
  Failover failover_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_FAILOVER_CLIENT_H_

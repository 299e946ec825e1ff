// The service's RPCs as blocking calls on protobuf messages, at one server. FailoverClient is the
// same at several servers, RemoteScheduler in domain types.
#ifndef STOWAGE_CLIENT_LIB_RPC_RPC_CLIENT_H_
#define STOWAGE_CLIENT_LIB_RPC_RPC_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/rpc/connection.h"
#include "client/lib/rpc/credentials.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

// Every call is sent at most once. All share one connection. Thread-safe. `timeout_seconds` limits
// a call; unset: no limit. Errors of every call: those of the service, and UNAVAILABLE "no answer
// from a server at …" within the time to connect when no server listens.
class RpcClient {
 public:
  // `server`: host:port or unix:PATH. `connect_seconds` limits looking up its name, and connecting.
  RpcClient(const std::string& server, const Credentials& credentials,
            double connect_seconds = Connection::kConnectSeconds);

  absl::StatusOr<v1::SolveResponse> Solve(const v1::SolveRequest& request,
                                          std::optional<double> timeout_seconds);
  // The same. Calls `on_event` on the calling thread for each event before the answer.
  absl::StatusOr<v1::SolveResponse> SolveStream(
      const v1::SolveRequest& request, std::optional<double> timeout_seconds,
      absl::FunctionRef<void(const v1::SolveEvent&)> on_event);
  absl::StatusOr<v1::FrontierResponse> Frontier(const v1::FrontierRequest& request,
                                                std::optional<double> timeout_seconds);
  absl::StatusOr<v1::SimulateResponse> Simulate(const v1::SimulateRequest& request,
                                                std::optional<double> timeout_seconds);
  absl::StatusOr<v1::AdmitResponse> Admit(const v1::AdmitRequest& request,
                                          std::optional<double> timeout_seconds);
  absl::StatusOr<v1::ListSolversResponse> ListSolvers(const v1::ListSolversRequest& request,
                                                      std::optional<double> timeout_seconds);
  absl::Status ReportExecution(const v1::ReportExecutionRequest& request,
                               std::optional<double> timeout_seconds);

 private:
  const Connection connection_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_RPC_CLIENT_H_

// The service's RPCs as blocking calls on protobuf messages: channel, deadline, bearer token, and
// gRPC's errors as absl::Status. RemoteScheduler is the same in domain types.
#ifndef STOWAGE_CLIENT_LIB_RPC_CLIENT_H_
#define STOWAGE_CLIENT_LIB_RPC_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/credentials.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

struct RemoteOptions {
  std::string server = "127.0.0.1:50051";  // host:port or unix:PATH
  std::optional<double> timeout_seconds;   // of one call; unset: none
  Credentials credentials = {};
};

// All calls share one connection. Thread-safe. Errors of every call: those of the service, and
// UNAVAILABLE "no answer from a server at …" within a few seconds when no server listens.
class RpcClient {
 public:
  explicit RpcClient(const RemoteOptions& options);

  // `timeout_seconds`, if set, replaces the options' timeout for this call.
  absl::StatusOr<v1::SolveResponse> Solve(const v1::SolveRequest& request,
                                          std::optional<double> timeout_seconds = std::nullopt);
  // The same. Calls `on_event` on the calling thread for each event before the answer.
  absl::StatusOr<v1::SolveResponse> SolveStream(
      const v1::SolveRequest& request, std::optional<double> timeout_seconds,
      absl::FunctionRef<void(const v1::SolveEvent&)> on_event);
  absl::StatusOr<v1::FrontierResponse> Frontier(const v1::FrontierRequest& request);
  absl::StatusOr<v1::SimulateResponse> Simulate(const v1::SimulateRequest& request);
  absl::StatusOr<v1::ListSolversResponse> ListSolvers();
  absl::Status ReportExecution(const v1::ReportExecutionRequest& request);

 private:
  template <typename Request, typename Response>
  using Method = grpc::Status (v1::Scheduler::Stub::*)(grpc::ClientContext*, const Request&,
                                                       Response*);
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                std::optional<double> timeout_seconds = std::nullopt);

  // Sets the deadline and the token of a call.
  void Prepare(std::optional<double> timeout_seconds, grpc::ClientContext* context) const;

  const RemoteOptions options_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_CLIENT_H_

#include "client/lib/rpc/rpc_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc/routing_key.h"

namespace stowage {

RpcClient::RpcClient(const std::string& server, const Credentials& credentials,
                     double connect_seconds)
    : connection_(server, credentials, connect_seconds),
      stub_(v1::Scheduler::NewStub(connection_.channel())) {}

absl::StatusOr<v1::SolveResponse> RpcClient::Solve(const v1::SolveRequest& request,
                                                   std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::Solve, request, timeout_seconds,
                          RoutingKey(request));
}

absl::StatusOr<v1::SolveResponse> RpcClient::SolveStream(
    const v1::SolveRequest& request, std::optional<double> timeout_seconds,
    absl::FunctionRef<void(const v1::SolveEvent&)> on_event) {
  grpc::ClientContext context;
  connection_.Prepare(timeout_seconds, &context);
  context.AddMetadata(kRoutingKeyHeader, RoutingKey(request));
  const auto reader = stub_->SolveStream(&context, request);
  v1::SolveEvent event;
  std::optional<v1::SolveResponse> answer;  // the last event
  while (reader->Read(&event)) {
    if (event.has_answer()) {
      answer = std::move(*event.mutable_answer());
    } else {
      on_event(event);
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return connection_.FailureOf(context, status, timeout_seconds);
  if (answer.has_value()) return *std::move(answer);
  return absl::InternalError(
      absl::StrCat("the server at ", connection_.server(), " ended its events without an answer"));
}

absl::StatusOr<v1::FrontierResponse> RpcClient::Frontier(const v1::FrontierRequest& request,
                                                         std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::Frontier, request, timeout_seconds,
                          RoutingKey(request));
}

absl::StatusOr<v1::SimulateResponse> RpcClient::Simulate(const v1::SimulateRequest& request,
                                                         std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::Simulate, request, timeout_seconds);
}

absl::StatusOr<v1::AdmitResponse> RpcClient::Admit(const v1::AdmitRequest& request,
                                                   std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::Admit, request, timeout_seconds);
}

absl::StatusOr<v1::ListSolversResponse> RpcClient::ListSolvers(
    const v1::ListSolversRequest& request, std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::ListSolvers, request, timeout_seconds);
}

absl::Status RpcClient::ReportExecution(const v1::ReportExecutionRequest& request,
                                        std::optional<double> timeout_seconds) {
  return connection_.Call(*stub_, &v1::Scheduler::Stub::ReportExecution, request, timeout_seconds)
      .status();
}

}  // namespace stowage

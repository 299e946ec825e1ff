#include "client/lib/rpc_client.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/lib/retry.h"
#include "grpcpp/grpcpp.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

// How long connecting may take; gRPC's own limit is 20 s.
constexpr int kConnectMilliseconds = 5000;
// Between attempts to connect; gRPC's own are 1 s to 2 minutes.
constexpr int kFirstReconnectMilliseconds = 100;
constexpr int kMostReconnectMilliseconds = 1000;

std::shared_ptr<grpc::Channel> Connect(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a schedule may have a million operations
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMilliseconds);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostReconnectMilliseconds);
  return grpc::CreateCustomChannel(options.server, ChannelCredentialsOf(options.credentials),
                                   arguments);
}

// Whether the text comes from a Stowage server, not from gRPC.
bool IsFromServer(const grpc::Status& status) {
  return absl::StartsWith(status.error_message(), "the server ");
}

// Advice for a call that got no response.
absl::string_view Remedy(const grpc::Status& status) {
  // A TLS server closes the connection on a client that speaks plain text, and on one without the
  // client certificate that it requires.
  if (absl::StrContains(status.error_message(), "Socket closed") ||
      absl::StrContains(status.error_message(), "reset by peer")) {
    return "if it speaks TLS give --tls-ca, and --tls-cert where it asks for one; else start "
           "stowage-server, or name another with --server";
  }
  if (absl::StrContains(status.error_message(), "empty address list")) {
    return "check that --tls-key is the key of --tls-cert";
  }
  return "start stowage-server, or name another with --server";
}

// gRPC's status as one that names the server and a remedy. Causes that a flag or another server
// remedies have a text of their own; all others pass through with the service's message. Advice on
// when to retry travels in the details and becomes a payload (retry.h).
absl::Status FromGrpc(const grpc::Status& status, const std::string& server,
                      std::optional<double> timeout_seconds) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());  // same numbers
  if (code == absl::StatusCode::kUnavailable && absl::StrContains(status.error_message(), "SSL")) {
    return absl::UnavailableError(absl::StrCat(
        "the server at ", server, " and this side do not come to terms over TLS (",
        status.error_message(),
        "); check --tls-ca, and --tls-cert where it asks for one, or leave them out where it does "
        "not speak TLS"));
  }
  // gRPC cancels calls that a stopping server has not begun; this client never cancels a call.
  if (code == absl::StatusCode::kCancelled) {
    return absl::UnavailableError(absl::StrCat(
        "the server at ", server, " ended the call as it stopped; ask another server"));
  }
  if (code == absl::StatusCode::kUnavailable && IsFromServer(status)) {
    return absl::UnavailableError(absl::StrCat(server, ": ", status.error_message()));
  }
  if (code == absl::StatusCode::kUnavailable) {
    return absl::UnavailableError(absl::StrCat("no answer from a server at ", server, " (",
                                               status.error_message(), "); ", Remedy(status)));
  }
  if (absl::StrContains(status.error_message(), "message larger than max")) {
    return {code, absl::StrCat("the request is larger than the server at ", server, " reads (",
                               status.error_message(), "); raise its --max-message")};
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the server at ", server, " did not answer within ", timeout_seconds.value_or(0),
        " s; give it more time, or ask for a coarser answer (fewer memory slots)"));
  }
  absl::Status result(code, status.error_message());
  v1::ErrorStatus details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      v1::RetryAdvice advice;
      if (detail.UnpackTo(&advice)) SetAdvisedPause(advice.retry_after_seconds(), &result);
    }
  }
  return result;
}

}  // namespace

RpcClient::RpcClient(const RemoteOptions& options)
    : options_(options), stub_(v1::Scheduler::NewStub(Connect(options))) {}

void RpcClient::Prepare(std::optional<double> timeout_seconds, grpc::ClientContext* context) const {
  if (!options_.credentials.token.empty()) {
    context->AddMetadata("authorization", "Bearer " + options_.credentials.token);
  }
  if (!timeout_seconds.has_value()) return;
  const std::chrono::duration<double> timeout(*timeout_seconds);
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

template <typename Request, typename Response>
absl::StatusOr<Response> RpcClient::Call(Method<Request, Response> method, const Request& request,
                                         std::optional<double> timeout_seconds) {
  if (!timeout_seconds.has_value()) timeout_seconds = options_.timeout_seconds;
  grpc::ClientContext context;
  Prepare(timeout_seconds, &context);
  Response response;
  const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status, options_.server, timeout_seconds);
  return response;
}

absl::StatusOr<v1::SolveResponse> RpcClient::Solve(const v1::SolveRequest& request,
                                                   std::optional<double> timeout_seconds) {
  return Call(&v1::Scheduler::Stub::Solve, request, timeout_seconds);
}

absl::StatusOr<v1::SolveResponse> RpcClient::SolveStream(
    const v1::SolveRequest& request, std::optional<double> timeout_seconds,
    absl::FunctionRef<void(const v1::SolveEvent&)> on_event) {
  if (!timeout_seconds.has_value()) timeout_seconds = options_.timeout_seconds;
  grpc::ClientContext context;
  Prepare(timeout_seconds, &context);
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
  if (!status.ok()) return FromGrpc(status, options_.server, timeout_seconds);
  if (answer.has_value()) return *std::move(answer);
  return absl::InternalError(
      absl::StrCat("the server at ", options_.server, " ended its events without an answer"));
}

absl::StatusOr<v1::FrontierResponse> RpcClient::Frontier(const v1::FrontierRequest& request) {
  return Call(&v1::Scheduler::Stub::Frontier, request);
}

absl::StatusOr<v1::SimulateResponse> RpcClient::Simulate(const v1::SimulateRequest& request) {
  return Call(&v1::Scheduler::Stub::Simulate, request);
}

absl::StatusOr<v1::ListSolversResponse> RpcClient::ListSolvers() {
  return Call(&v1::Scheduler::Stub::ListSolvers, v1::ListSolversRequest());
}

absl::Status RpcClient::ReportExecution(const v1::ReportExecutionRequest& request) {
  return Call(&v1::Scheduler::Stub::ReportExecution, request).status();
}

}  // namespace stowage

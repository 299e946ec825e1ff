#include "client/lib/rpc/failover_client.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "client/lib/rpc/failure.h"
#include "client/lib/rpc/retry.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// A server that does not even refuse a connection leaves time for the others.
double ConnectSeconds(const RemoteOptions& options) {
  const auto count = static_cast<double>(options.servers.size());
  if (count == 1) return Connection::kConnectSeconds;
  constexpr double kMax = 2;
  return options.timeout_seconds.has_value()
             ? std::min(kMax, *options.timeout_seconds / (count + 1))
             : kMax;
}

}  // namespace

FailoverClient::FailoverClient(const RemoteOptions& options, uint32_t seed)
    : timeout_seconds_(options.timeout_seconds),
      passed_over_(options.passed_over),
      failover_({.servers = options.servers,
                 .patience_seconds = options.patience_seconds,
                 .seed = seed}) {
  for (const std::string& server : options.servers) {
    servers_.push_back(
        std::make_unique<RpcClient>(server, options.credentials, ConnectSeconds(options)));
  }
}

absl::Status FailoverClient::Call(std::optional<double> timeout_seconds, Failover::Rule may_repeat,
                                  Attempt attempt) {
  if (!timeout_seconds.has_value()) timeout_seconds = timeout_seconds_;
  absl::Status status = failover_.Call(
      timeout_seconds, may_repeat,
      [&](size_t server, std::optional<double> left) { return attempt(*servers_[server], left); });
  return absl::IsUnavailable(status) ? WithRemedy(status) : status;
}

template <typename Request, typename Response>
absl::StatusOr<Response> FailoverClient::Ask(Method<Request, Response> method,
                                             const Request& request,
                                             std::optional<double> timeout_seconds) {
  absl::StatusOr<Response> response;
  std::map<const RpcClient*, absl::Status> unavailable;  // what each said last
  RETURN_IF_ERROR(
      Call(timeout_seconds, IsRetryable, [&](RpcClient& server, std::optional<double> left) {
        response = (server.*method)(request, left);
        unavailable.erase(&server);
        if (absl::IsUnavailable(response.status())) unavailable[&server] = response.status();
        return response.status();
      }));
  if (!passed_over_) return response;
  for (const auto& [server, failure] : unavailable) passed_over_(failure);
  return response;
}

absl::StatusOr<v1::SolveResponse> FailoverClient::Solve(const v1::SolveRequest& request,
                                                        std::optional<double> timeout_seconds) {
  return Ask(&RpcClient::Solve, request, timeout_seconds);
}

absl::StatusOr<v1::SolveResponse> FailoverClient::SolveStream(
    const v1::SolveRequest& request, std::optional<double> timeout_seconds,
    absl::FunctionRef<void(const v1::SolveEvent&)> on_event,
    absl::FunctionRef<void(const absl::Status& failure)> on_repeat) {
  absl::Status last;  // OK: none yet
  absl::StatusOr<v1::SolveResponse> response;
  RETURN_IF_ERROR(
      Call(timeout_seconds, IsRetryable, [&](RpcClient& server, std::optional<double> left) {
        if (!last.ok()) on_repeat(last);
        response = server.SolveStream(request, left, on_event);
        last = response.status();
        return last;
      }));
  return response;
}

absl::StatusOr<v1::FrontierResponse> FailoverClient::Frontier(const v1::FrontierRequest& request) {
  return Ask(&RpcClient::Frontier, request);
}

absl::StatusOr<v1::SimulateResponse> FailoverClient::Simulate(const v1::SimulateRequest& request) {
  return Ask(&RpcClient::Simulate, request);
}

absl::StatusOr<v1::AdmitResponse> FailoverClient::Admit(const v1::AdmitRequest& request) {
  return Ask(&RpcClient::Admit, request);
}

absl::StatusOr<v1::ListSolversResponse> FailoverClient::ListSolvers() {
  return Ask(&RpcClient::ListSolvers, v1::ListSolversRequest());
}

absl::Status FailoverClient::ReportExecution(const v1::ReportExecutionRequest& request) {
  return Call(std::nullopt, WasNotSent, [&](RpcClient& server, std::optional<double> left) {
    return server.ReportExecution(request, left);
  });
}

}  // namespace stowage

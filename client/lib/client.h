// Asks a Stowage server. Blocking; one connection that all calls share.
#ifndef STOWAGE_CLIENT_LIB_CLIENT_H_
#define STOWAGE_CLIENT_LIB_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/lib/credentials.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

struct ClientOptions {
  std::string server = "127.0.0.1:50051";  // host:port or unix:PATH
  std::optional<double> timeout_seconds;   // of one call; unset: none
  Credentials credentials = {};
};

// Errors of every call: those of the service, and UNAVAILABLE "no answer from a server at …" within
// a few seconds when none listens. Thread-safe.
class Client {
 public:
  explicit Client(const ClientOptions& options);

  // `timeout_seconds`: of this call, instead of the options'.
  absl::StatusOr<v1::SolveResponse> Solve(const v1::SolveRequest& request,
                                          std::optional<double> timeout_seconds = std::nullopt);
  // The same, and tells `heard` of each event before the answer, from the calling thread.
  absl::StatusOr<v1::SolveResponse> SolveStream(
      const v1::SolveRequest& request, absl::FunctionRef<void(const v1::SolveEvent&)> heard);
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

  // Deadline and token of a call.
  void Prepare(std::optional<double> timeout_seconds, grpc::ClientContext* context) const;

  const ClientOptions options_;
  std::unique_ptr<v1::Scheduler::Stub> stub_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_CLIENT_H_

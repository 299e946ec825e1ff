// The operators' service (proto/stowage/v1/operator.proto) of one server, as blocking calls.
#ifndef STOWAGE_CLIENT_LIB_OPERATOR_CLIENT_H_
#define STOWAGE_CLIENT_LIB_OPERATOR_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/rpc/connection.h"
#include "client/lib/rpc/credentials.h"
#include "stowage/v1/operator.grpc.pb.h"

namespace stowage {

// Each call is sent once: most of them change something. Thread-safe. The credentials' token is one
// of the server's --operator-token-file. Errors: those of the service; UNAVAILABLE and
// DEADLINE_EXCEEDED with a remedy; UNIMPLEMENTED where the server has no operators.
class OperatorClient {
 public:
  // `timeout_seconds` limits each call; unset: no limit.
  OperatorClient(const std::string& server, const Credentials& credentials,
                 std::optional<double> timeout_seconds);

  absl::StatusOr<v1::ListSolvesResponse> ListSolves();
  absl::StatusOr<v1::CancelSolveResponse> CancelSolve(const std::string& fingerprint);
  absl::Status DropAnswer(const std::string& fingerprint);
  absl::Status SetLogLevel(const std::string& level);
  absl::Status Drain();

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Operator::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                                const Request& request);

  const Connection connection_;
  const std::optional<double> timeout_seconds_;
  const std::unique_ptr<v1::Operator::Stub> stub_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_OPERATOR_CLIENT_H_

#include "client/lib/operator_client.h"

#include "absl/strings/str_cat.h"

namespace stowage {

OperatorClient::OperatorClient(const std::string& server, const Credentials& credentials,
                               std::optional<double> timeout_seconds)
    : connection_(server, credentials, Connection::kConnectSeconds),
      timeout_seconds_(timeout_seconds),
      stub_(v1::Operator::NewStub(connection_.channel())) {}

template <typename Request, typename Response>
absl::StatusOr<Response> OperatorClient::Call(
    grpc::Status (v1::Operator::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request) {
  absl::StatusOr<Response> response = connection_.Call(*stub_, method, request, timeout_seconds_);
  if (absl::IsUnavailable(response.status())) {
    return WithRemedy(response.status());
  }
  if (absl::IsUnimplemented(response.status())) {
    return absl::UnimplementedError(
        absl::StrCat("the server at ", connection_.server(),
                     " has no operators; start it with --operator-token-file"));
  }
  return response;
}

absl::StatusOr<v1::ListSolvesResponse> OperatorClient::ListSolves() {
  return Call(&v1::Operator::Stub::ListSolves, v1::ListSolvesRequest());
}

absl::StatusOr<v1::CancelSolveResponse> OperatorClient::CancelSolve(
    const std::string& fingerprint) {
  v1::CancelSolveRequest request;
  request.set_fingerprint(fingerprint);
  return Call(&v1::Operator::Stub::CancelSolve, request);
}

absl::Status OperatorClient::DropAnswer(const std::string& fingerprint) {
  v1::DropAnswerRequest request;
  request.set_fingerprint(fingerprint);
  return Call(&v1::Operator::Stub::DropAnswer, request).status();
}

absl::Status OperatorClient::SetLogLevel(const std::string& level) {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  return Call(&v1::Operator::Stub::SetLogLevel, request).status();
}

absl::Status OperatorClient::Drain() {
  return Call(&v1::Operator::Stub::Drain, v1::DrainRequest()).status();
}

}  // namespace stowage

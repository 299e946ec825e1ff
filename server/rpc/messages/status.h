// The one conversion from absl::Status to grpc::Status.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_STATUS_H_
#define STOWAGE_SERVER_RPC_MESSAGES_STATUS_H_

#include <vector>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "solver/model/validate.h"

namespace stowage {

// OK where there are no violations, else INVALID_ARGUMENT with all that a trailer has room for, as
// text and as details (v1::Violations), which ToGrpc() sends.
absl::Status InvalidRequest(const std::vector<FieldViolation>& violations);

// Code and message stay the same; the message is shortened to 1000 bytes. Where waiting helps, the
// details have a v1::RetryAdvice, and the trailers of `context` say the same to the retry policies
// of gRPC's clients (grpc-retry-pushback-ms); a RESOURCE_EXHAUSTED where it does not tells these
// not to try again. Once for each call, before its end is sent.
grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContextBase* context);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_STATUS_H_

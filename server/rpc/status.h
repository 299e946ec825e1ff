// The one conversion from our errors to gRPC's.
#ifndef STOWAGE_SERVER_RPC_STATUS_H_
#define STOWAGE_SERVER_RPC_STATUS_H_

#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "solver/model/validate.h"

namespace stowage {

// Code and message as they are; RESOURCE_EXHAUSTED carries a RetryAdvice where waiting helps.
grpc::Status ToGrpc(const absl::Status& status);

// INVALID_ARGUMENT with all violations that a trailer has room for, in words and as details.
// Requires: violations is not empty.
grpc::Status ToGrpc(const std::vector<FieldViolation>& violations);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_STATUS_H_

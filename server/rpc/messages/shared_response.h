// Bytes of responses that several calls send at a time, in memory once.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_SHARED_RESPONSE_H_
#define STOWAGE_SERVER_RPC_MESSAGES_SHARED_RESPONSE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/messages/unsent_bytes.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// A slice of bytes that `owner` owns and never changes; it owns the owner with the others.
grpc::Slice SliceOf(std::shared_ptr<const void> owner, absl::string_view bytes);

// A response in which the callers' origins differ and nothing else. Its bytes are counted among
// those that `client` has not read until the last slice of them is gone. Immutable, thread-safe.
class SharedResponse : public std::enable_shared_from_this<SharedResponse> {
 public:
  // Of the message that `fill` fills, whose origin plays no part. Errors: RESOURCE_EXHAUSTED
  // without enough memory, and those of UnsentBytes.
  static absl::StatusOr<std::shared_ptr<const SharedResponse>> Make(
      absl::FunctionRef<void(v1::SolveResponse*)> fill, const std::string& client);

  // The bytes that the response with that origin serializes to.
  grpc::ByteBuffer With(const v1::Origin& origin) const;
  // How many of them calls share.
  size_t bytes() const { return before_.size() + after_.size(); }

 private:
  SharedResponse() = default;

  std::string before_;  // the fields before the origin, serialized
  std::string after_;   // those after it
  UnsentBytes unsent_;
};

using SharedResponsePtr = std::shared_ptr<const SharedResponse>;

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_SHARED_RESPONSE_H_

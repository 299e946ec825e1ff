// Requests that are counted before they are parsed: two bytes on the wire may be a hundred in
// memory, so that a message within the limit on messages could take a gigabyte.
#ifndef STOWAGE_SERVER_RPC_MESSAGE_LIMITS_H_
#define STOWAGE_SERVER_RPC_MESSAGE_LIMITS_H_

#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "solver/model/validate.h"

namespace stowage {

// A message, or why it was not parsed.
template <typename Message>
class Bounded {
 public:
  const Message& message() const { return message_; }
  Message* mutable_message() { return &message_; }
  const std::vector<FieldViolation>& violations() const { return violations_; }
  void Refuse(std::vector<FieldViolation> violations) { violations_ = std::move(violations); }

 private:
  Message message_;
  std::vector<FieldViolation> violations_;
};

// What there is too much of in `bytes` of a message of that type: more stages or operations than
// any request may have, or more fields. Nothing of short or malformed ones: parsing them is cheap.
// O(bytes), and no memory.
std::vector<FieldViolation> TooMuchOf(grpc::ByteBuffer bytes,
                                      const google::protobuf::Descriptor& type);

}  // namespace stowage

namespace grpc {

// How gRPC reads them.
template <typename Message>
class SerializationTraits<stowage::Bounded<Message>, void> {
 public:
  static Status Deserialize(ByteBuffer* bytes, stowage::Bounded<Message>* bounded) {
    bounded->Refuse(stowage::TooMuchOf(*bytes, *Message::descriptor()));
    if (!bounded->violations().empty()) return Status::OK;
    return SerializationTraits<Message>::Deserialize(bytes, bounded->mutable_message());
  }
};

}  // namespace grpc

#endif  // STOWAGE_SERVER_RPC_MESSAGE_LIMITS_H_

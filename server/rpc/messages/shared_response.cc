#include "server/rpc/messages/shared_response.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "google/protobuf/arena.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/rpc/messages/read_request.h"
#include "solver/base/status_macros.h"

namespace stowage {

grpc::Slice SliceOf(std::shared_ptr<const void> owner, absl::string_view bytes) {
  using Owner = std::shared_ptr<const void>;
  // gRPC writes to no slice that it is given.
  return {const_cast<char*>(bytes.data()), bytes.size(),
          [](void* its) { delete static_cast<Owner*>(its); }, new Owner(std::move(owner))};
}

// Fields are serialized in the order of their numbers.
absl::StatusOr<std::shared_ptr<const SharedResponse>> SharedResponse::Make(
    absl::FunctionRef<void(v1::SolveResponse*)> fill, const std::string& client) {
  const std::shared_ptr<SharedResponse> shared(new SharedResponse);
  RETURN_IF_ERROR(WithMemory([&] {
    google::protobuf::Arena arena;
    auto* const response = google::protobuf::Arena::CreateMessage<v1::SolveResponse>(&arena);
    auto* const after = google::protobuf::Arena::CreateMessage<v1::SolveResponse>(&arena);
    fill(response);
    response->clear_origin();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    response->GetReflection()->ListFields(*response, &fields);
    std::erase_if(fields, [](const google::protobuf::FieldDescriptor* field) {
      return field->number() < v1::SolveResponse::kOriginFieldNumber;
    });
    response->GetReflection()->SwapFields(response, after, fields);
    response->SerializeToString(&shared->before_);
    after->SerializeToString(&shared->after_);
  }));
  RETURN_IF_ERROR(shared->unsent_.Take(static_cast<int64_t>(shared->bytes()), client));
  return shared;
}

grpc::ByteBuffer SharedResponse::With(const v1::Origin& origin) const {
  v1::SolveResponse own;
  *own.mutable_origin() = origin;
  const std::array<grpc::Slice, 3> slices = {SliceOf(shared_from_this(), before_),
                                             grpc::Slice(own.SerializeAsString()),
                                             SliceOf(shared_from_this(), after_)};
  return {slices.data(), slices.size()};
}

}  // namespace stowage

#include "server/rpc/unknown_methods.h"

#include "server/rpc/calls/brief_call.h"

namespace stowage {
namespace {

class UnknownCall final : public BriefCall<grpc::ServerGenericBidiReactor> {
 public:
  UnknownCall(grpc::CallbackServerContext& context, Admission& admission, DelayedRefusals& refusals)
      : BriefCall(context, admission, refusals, /*request_bytes=*/std::nullopt) {
    if (!EndsAsRefused()) EndWith(absl::UnimplementedError("the server has no such method"));
  }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new UnknownCall(*context, admission_, refusals_);
}

}  // namespace stowage

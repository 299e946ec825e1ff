// Calls of methods that the server does not have.
#ifndef STOWAGE_SERVER_RPC_UNKNOWN_METHODS_H_
#define STOWAGE_SERVER_RPC_UNKNOWN_METHODS_H_

#include "grpcpp/generic/async_generic_service.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/rpc/callers/admission.h"

namespace stowage {

// Ends them with UNIMPLEMENTED as gRPC would, but counts them in their caller's rate, above which
// they are refused late. Borrows both. Thread-safe.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  UnknownMethods(Admission& admission, DelayedRefusals& refusals)
      : admission_(admission), refusals_(refusals) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  Admission& admission_;
  DelayedRefusals& refusals_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_UNKNOWN_METHODS_H_

// gRPC's server reflection: which services there are, and the files that describe their messages.
#ifndef STOWAGE_SERVER_RPC_REFLECTION_SERVICE_H_
#define STOWAGE_SERVER_RPC_REFLECTION_SERVICE_H_

#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/rpc/callers/admission.h"

namespace stowage {

// Needs no token, and is therefore not gRPC's own: that one parses a message of any size, which
// takes a hundred times its bytes in memory, and holds a thread for as long as a stream is open.
// This one parses requests of 4 KiB at most and holds none. Each request counts as a call in the
// rate of its caller, and the answers among those that wait to be read. Thread-safe.
class ReflectionService final : public grpc::reflection::v1alpha::ServerReflection::
                                    WithRawCallbackMethod_ServerReflectionInfo<
                                        grpc::reflection::v1alpha::ServerReflection::Service> {
 public:
  // `files`: those of the services that are listed, which thereby are in the program. Borrows the
  // others.
  ReflectionService(std::vector<const google::protobuf::FileDescriptor*> files,
                    Admission& admission, DelayedRefusals& refusals)
      : files_(std::move(files)), admission_(admission), refusals_(refusals) {}

  // Ends a stream with INVALID_ARGUMENT at a request that is too long, or none, and with
  // RESOURCE_EXHAUSTED where too many answers wait to be read, or above the caller's rate, a second
  // late. What is not found is an error_response of NOT_FOUND.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServerReflectionInfo(
      grpc::CallbackServerContext* context) override;

 private:
  const std::vector<const google::protobuf::FileDescriptor*> files_;
  Admission& admission_;
  DelayedRefusals& refusals_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_REFLECTION_SERVICE_H_

// Service Operator: lists and cancels solves, drops cached answers, sets the log level, tells the
// status, drains.
#ifndef STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_
#define STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"
#include "server/engine/engine.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/events/observer.h"
#include "server/rpc/callers/admission.h"
#include "stowage/v1/operator.grpc.pb.h"

namespace stowage {

// The methods get their requests as bytes: the caller is admitted before anything is parsed.
template <typename Base>
using RawOperatorMethods = v1::Operator::WithRawCallbackMethod_ListSolves<
    v1::Operator::WithRawCallbackMethod_CancelSolve<v1::Operator::WithRawCallbackMethod_DropAnswer<
        v1::Operator::WithRawCallbackMethod_SetLogLevel<
            v1::Operator::WithRawCallbackMethod_GetStatus<
                v1::Operator::WithRawCallbackMethod_Drain<Base>>>>>>;

// Every call is reported as an OperatorAction. Borrows all but the actions. Thread-safe.
class OperatorService final : public RawOperatorMethods<v1::Operator::Service> {
 public:
  struct Actions {
    // Errors: INVALID_ARGUMENT for a level that is none.
    std::function<absl::Status(absl::string_view)> set_log_level;
    std::function<v1::ServerStatus(std::optional<double> since_seconds)> status;
    std::function<void()> drain;  // begins to
  };
  struct Parts {
    Engine& engine;
    Observer& observer;
    DelayedRefusals& refusals;
    Admission& admission;  // by the operators' tokens, which are not the jobs'
  };
  OperatorService(const Parts& parts, Actions actions)
      : parts_(parts), actions_(std::move(actions)) {}

  grpc::ServerUnaryReactor* ListSolves(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* CancelSolve(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* DropAnswer(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* bytes,
                                      grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* bytes, grpc::ByteBuffer* out) override;

 private:
  struct RawCall {
    grpc::CallbackServerContext& context;
    const grpc::ByteBuffer& bytes;
    grpc::ByteBuffer* out;
  };
  // Admits the caller, reads `request`, runs `act` on the calling thread, reports `action` and ends
  // the call with `response`, or with the first error of these steps.
  grpc::ServerUnaryReactor* Act(const RawCall& call, OperatorAction* action,
                                google::protobuf::Message* request,
                                const google::protobuf::Message& response,
                                absl::FunctionRef<absl::Status()> act);

  const Parts parts_;
  const Actions actions_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_

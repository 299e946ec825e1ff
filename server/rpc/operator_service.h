// Service Operator: lists and cancels solves, drops cached answers, sets the log level, drains.
#ifndef STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_
#define STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine.h"
#include "server/engine/timers.h"
#include "server/observe/observer.h"
#include "stowage/v1/operator.grpc.pb.h"

namespace stowage {

// Every call is reported as an OperatorAction. Borrows all but the actions. Thread-safe.
class OperatorService final : public v1::Operator::CallbackService {
 public:
  struct Actions {
    // The operator with this "authorization" metadata, or UNAUTHENTICATED.
    std::function<absl::StatusOr<std::string>(absl::string_view)> authenticate;
    // Errors: INVALID_ARGUMENT for a level that is none.
    std::function<absl::Status(absl::string_view)> set_log_level;
    std::function<void()> drain;  // begins to
  };
  struct Parts {
    Engine& engine;
    AnswerCache& cache;
    Observer& observer;
    Timers& timers;
  };
  OperatorService(const Parts& parts, Actions actions)
      : parts_(parts), actions_(std::move(actions)) {}

  grpc::ServerUnaryReactor* ListSolves(grpc::CallbackServerContext* context,
                                       const v1::ListSolvesRequest* request,
                                       v1::ListSolvesResponse* response) override;
  grpc::ServerUnaryReactor* CancelSolve(grpc::CallbackServerContext* context,
                                        const v1::CancelSolveRequest* request,
                                        v1::CancelSolveResponse* response) override;
  grpc::ServerUnaryReactor* DropAnswer(grpc::CallbackServerContext* context,
                                       const v1::DropAnswerRequest* request,
                                       v1::DropAnswerResponse* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::SetLogLevelRequest* request,
                                        v1::SetLogLevelResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;

 private:
  // Authenticates, runs `act` on the calling thread, reports `action` and ends the call.
  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, OperatorAction action,
                                absl::FunctionRef<absl::Status()> act);

  const Parts parts_;
  const Actions actions_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_OPERATOR_SERVICE_H_

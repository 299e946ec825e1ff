// What all calls share: an id, cancellation, one log record, an end that comes exactly once.
#ifndef STOWAGE_SERVER_RPC_CALL_H_
#define STOWAGE_SERVER_RPC_CALL_H_

#include <chrono>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/observer.h"
#include "solver/model/validate.h"

namespace stowage {

// Deletes itself when gRPC is done with it, which is some time after an End(). `context`, the
// request and the response stay valid until then; nothing of a call may be touched after End().
class Call final : public grpc::ServerUnaryReactor {
 public:
  // Borrows `observer`, which must outlive the call.
  Call(const char* method, grpc::CallbackServerContext& context, Observer& observer);

  // Set when the caller leaves or its deadline passes.
  std::stop_token stop_token() const { return stop_.get_token(); }

  // What the log will say of the call; fill in before End().
  CallRecord& record() { return record_; }

  // Exactly one of these, exactly once, from any thread.
  void End(const absl::Status& status);
  void EndWithViolations(const std::vector<FieldViolation>& violations);

 private:
  void End(const absl::Status& status, const grpc::Status& wire);
  void OnCancel() override { stop_.request_stop(); }
  void OnDone() override { delete this; }

  Observer& observer_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::stop_source stop_;
  CallRecord record_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALL_H_

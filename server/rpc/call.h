// What all calls share: an id, who asks and until when, cancellation, one log record, an end that
// comes exactly once.
#ifndef STOWAGE_SERVER_RPC_CALL_H_
#define STOWAGE_SERVER_RPC_CALL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/shared_solve.h"
#include "server/observe/observer.h"
#include "server/rpc/unsent_bytes.h"
#include "solver/model/chain.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

// How large a question this server takes, at most; the API's own limits hold beside them.
struct QuestionLimits {
  int stages = kMaxStages;
  int64_t memory_slots = kMaxMemorySlots;
};

// What every call needs of the server; outlives the calls.
struct CallEnvironment {
  Observer& observer;
  // The name of the caller with this "authorization" metadata, or UNAUTHENTICATED; from any thread.
  // Empty: no token is asked for.
  std::function<absl::StatusOr<std::string>(absl::string_view)> authenticate = {};
  QuestionLimits limits = {};
};

// Of one call, of either kind.
class CallState {
 public:
  CallState(const char* method, grpc::CallbackServerContext& context,
            const CallEnvironment& environment);

  // UNAUTHENTICATED where the caller may not ask: the call ends with it before it costs anything.
  const absl::Status& admission() const { return admission_; }
  const QuestionLimits& limits() const { return limits_; }

  // Its token is set when the caller leaves or its deadline passes.
  Caller caller() const;
  void Leave() { stop_.request_stop(); }

  // What the log will say of the call; fill in before Ended().
  CallRecord& record() { return record_; }

  // Tells the observer. Returns what the wire gets: no answer, of so many bytes, where too many
  // wait to be read. Exactly once.
  grpc::Status Ended(absl::Status status, int64_t answer_bytes = 0);
  grpc::Status Ended(const std::vector<FieldViolation>& violations);

 private:
  void Record(const absl::Status& status);

  // Sets record_.client.
  absl::Status Admit(const grpc::CallbackServerContext& context,
                     const CallEnvironment& environment);

  Observer& observer_;
  const QuestionLimits limits_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point deadline_;
  std::stop_source stop_;
  CallRecord record_;
  const absl::Status admission_;
  Unsent unsent_;
};

// Deletes itself when gRPC is done with it, which is some time after an End(). `context`, the
// request and the response stay valid until then; nothing of a call may be touched after End().
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const char* method, grpc::CallbackServerContext& context, const CallEnvironment& environment)
      : state_(method, context, environment) {}

  Caller caller() const { return state_.caller(); }
  const absl::Status& admission() const { return state_.admission(); }
  const QuestionLimits& limits() const { return state_.limits(); }
  CallRecord& record() { return state_.record(); }

  // Exactly one of these, exactly once, from any thread.
  void End(const absl::Status& status, int64_t answer_bytes = 0) {
    Finish(state_.Ended(status, answer_bytes));
  }
  void EndWithViolations(const std::vector<FieldViolation>& violations) {
    Finish(state_.Ended(violations));
  }

 private:
  void OnCancel() override { state_.Leave(); }
  void OnDone() override { delete this; }

  CallState state_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALL_H_

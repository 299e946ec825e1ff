// What calls share that need no token and leave no record: health, reflection, methods that do not
// exist.
#ifndef STOWAGE_SERVER_RPC_CALLS_BRIEF_CALL_H_
#define STOWAGE_SERVER_RPC_CALLS_BRIEF_CALL_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/rpc/callers/admission.h"
#include "server/rpc/messages/status.h"
#include "solver/base/time/clock.h"
#include "solver/base/time/timers.h"

namespace stowage {

// A reactor that is counted in its client's rate and on its connection as Admission has it, and is
// refused late like other calls. Deletes itself when gRPC is done with it. Borrows all that it is
// given.
template <typename Reactor>
class BriefCall : public Reactor {
 protected:
  BriefCall(grpc::CallbackServerContext& context, Admission& admission, DelayedRefusals& refusals,
            std::optional<size_t> request_bytes)
      : context_(context),
        admission_(admission),
        refusals_(refusals),
        caller_(admission.Admit(context, request_bytes)) {}

  grpc::CallbackServerContext& context() const { return context_; }
  const AdmittedCaller& caller() const { return caller_; }

  // True: the call ends with its refusal. Once, first of all.
  bool EndsAsRefused() { return EndsAsRefused(caller_); }
  // Counts one more request of a stream; true: the stream ends with its refusal.
  bool EndsAsRefusedAgain() { return EndsAsRefused(admission_.Admit(context_, 0)); }
  void EndWith(const absl::Status& status) { this->Finish(ToGrpc(status, &context_)); }

  void OnCancel() override {
    caller_.counted.Abandon();
    left_.request_stop();
  }
  void OnDone() override { delete this; }

 private:
  bool EndsAsRefused(const AdmittedCaller& caller) {
    if (caller.status.ok()) return false;
    const grpc::Status end = ToGrpc(caller.status, &context_);
    const auto due = After(Timers::Clock::now(), caller.delay_seconds);
    const auto refusal = refusals_.Delay(caller.client, due, [this, end] { this->Finish(end); });
    if (refusal != nullptr) on_leave_.emplace(left_.get_token(), [refusal] { refusal->SendNow(); });
    return true;
  }

  grpc::CallbackServerContext& context_;  // valid until the end
  Admission& admission_;
  DelayedRefusals& refusals_;
  const AdmittedCaller caller_;
  std::stop_source left_;
  std::optional<std::stop_callback<std::function<void()>>> on_leave_;  // of a delayed refusal
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_BRIEF_CALL_H_

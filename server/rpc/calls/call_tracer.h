// Decides which calls are traced, and hands their traces over once they have been answered.
#ifndef STOWAGE_SERVER_RPC_CALLS_CALL_TRACER_H_
#define STOWAGE_SERVER_RPC_CALLS_CALL_TRACER_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "server/events/call_trace.h"
#include "server/events/observer.h"
#include "server/rpc/calls/trace_context.h"
#include "solver/base/time/rate_limit.h"

namespace stowage {

// Thread-safe.
class CallTracer {
 public:
  static constexpr double kRefusedPerSecond = 10;

  // `ratio`: the part of the calls that are traced whose callers do not say, 0..1. All random
  // numbers follow from `seed`. Borrows the observer.
  CallTracer(double ratio, uint64_t seed, TraceObserver& observer)
      : ratio_(ratio), state_(seed), observer_(observer) {}

  // For calls that begin from now on.
  void SetRatio(double ratio) { ratio_ = ratio; }

  // The trace of a call that begins; null: it is not traced. Whether it is follows from the
  // caller's flag, and from the ratio where the caller sent no traceparent.
  CallTracePtr Begin(const std::optional<TraceParent>& caller);
  // The same for a call that is refused. Only where its caller samples it, and of all callers
  // together up to kRefusedPerSecond, so that those who are not let in cannot fill the queue.
  CallTracePtr BeginRefused(const std::optional<TraceParent>& caller,
                            RateLimit::Clock::time_point now);

  // Once, when the answer to a traced call has been sent.
  void End(CallTrace& trace, const CallRecord& record, CallTrace::Clock::time_point begin);

 private:
  uint64_t Random();
  uint64_t NewId();

  std::atomic<double> ratio_;
  std::atomic<uint64_t> state_;  // of Random()
  RateLimit refused_{kRefusedPerSecond, /*burst_seconds=*/1};
  TraceObserver& observer_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_CALL_TRACER_H_

#include "server/rpc/calls/call_tracer.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace stowage {

// SplitMix64 (Steele, Lea and Flood, 2014): its state is a counter, so that no caller waits for
// another, and no number comes twice.
uint64_t CallTracer::Random() {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t x = state_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// No id is 0: that is none.
uint64_t CallTracer::NewId() {
  const uint64_t id = Random();
  return id != 0 ? id : Random();
}

CallTracePtr CallTracer::Begin(const std::optional<TraceParent>& caller) {
  if (caller.has_value()) {
    if (!caller->is_sampled) return nullptr;
    return std::make_shared<CallTrace>(
        TraceIds{.trace = std::string(caller->trace), .parent = std::string(caller->parent)});
  }
  constexpr double kUnit = 0x1p-53;  // of the 53 bits that a double has
  if (static_cast<double>(Random() >> 11) * kUnit >= ratio_) return nullptr;
  return std::make_shared<CallTrace>(
      TraceIds{.trace = absl::StrFormat("%016x%016x", NewId(), NewId())});
}

CallTracePtr CallTracer::BeginRefused(const std::optional<TraceParent>& caller,
                                      RateLimit::Clock::time_point now) {
  if (!caller.has_value() || !caller->is_sampled) return nullptr;
  if (refused_.Refuses("all", now).has_value()) return nullptr;
  return Begin(caller);
}

void CallTracer::End(CallTrace& trace, const CallRecord& record,
                     CallTrace::Clock::time_point begin) {
  TracedCall call{.record = record,
                  .ids = trace.ids(),
                  .span_id = NewId(),
                  .begin = begin,
                  .end = CallTrace::Clock::now(),
                  .spans = trace.TakeSpans(),
                  .left_out = trace.left_out()};
  for (CallSpan& span : call.spans) span.id = NewId();
  observer_.CallTraced(std::move(call));
}

}  // namespace stowage

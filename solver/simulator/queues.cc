// With c, h, d the end of the last operation in the compute, to-host and to-device queue, r the end
// of the last RELEASE, o_l and p_l the end of the latest OFFLOAD and PREFETCH of value l:
//   compute   start = max(c, r, p of every value that it reads)          c = start + duration
//   OFFLOAD   start = max(h, c, p_l)              h = o_l = start + latency + bytes / offload rate
//   RELEASE   r = max(r, c, o_l)
//   PREFETCH  start = max(d, c, r)                d = p_l = start + latency + bytes / prefetch rate
// With half_duplex d and h are the same queue. c, h, d, r are compute_, to_host_, to_device_ and
// released_. TransferPlacement::Time() repeats these rules and must add in the same order.
#include "solver/simulator/queues.h"

#include <algorithm>
#include <utility>

namespace stowage {
namespace {

// The later of two events; `a` on a tie, so that an operation's own queue takes precedence as the
// cause of a wait.
template <typename Event>
const Event& Later(const Event& a, const Event& b) {
  return b.seconds > a.seconds ? b : a;
}

}  // namespace

Queues::Queues(const Chain& chain, const Platform& platform)
    : chain_(chain), platform_(platform), values_(static_cast<size_t>(chain.length()) + 2) {}

Queues::Span Queues::Run(const Operation& operation, const Duration& duration) {
  const int l = operation.stage;
  Span span;
  switch (operation.kind) {
    case OperationKind::kOffload:
      span = Offload(l);
      break;
    case OperationKind::kRelease:
      span = Release(l);
      break;
    case OperationKind::kPrefetch:
      span = Prefetch(l);
      break;
    default:
      span = Compute(operation, duration);
      break;
  }
  makespan_ = std::max(makespan_, span.end_seconds);
  ++index_;
  return span;
}

Queues::Span Queues::Compute(const Operation& operation, const Duration& duration) {
  const int l = operation.stage;
  const bool backward = operation.kind == OperationKind::kBackward;
  Event ready = Later(compute_, released_);
  ready = Later(ready, values_[l - 1].prefetched);
  if (backward) ready = Later(ready, values_[l].prefetched);
  const Stage& stage = chain_.stage(l);
  const double forward_seconds = duration.replay ? stage.ReplaySeconds() : stage.forward_seconds;
  const double seconds =
      (backward ? stage.BackwardSeconds(values_[l].save_option) : forward_seconds) +
      duration.entry_seconds;
  Span span{ready.seconds, ready.seconds + seconds, std::nullopt};
  if (ready.seconds > compute_.seconds) span.waits_for = ready.operation;
  compute_ = {span.end_seconds, index_};
  compute_seconds_ += seconds;
  if (!backward) {
    // A forward creates a new value, which has not been transferred yet.
    values_[l] = Value{};
    values_[l].saved = Saves(operation.kind);
    values_[l].save_option = operation.save_option;
  }
  return span;
}

Queues::Span Queues::Transfer(Event& queue, const Event& ready, double seconds) {
  const Event& begin = Later(queue, ready);
  Span span{begin.seconds, begin.seconds + seconds, std::nullopt};
  if (ready.seconds > queue.seconds) span.waits_for = ready.operation;
  queue = {span.end_seconds, index_};
  return span;
}

Queues::Span Queues::Offload(int l) {
  const double seconds = platform_.transfer_latency_seconds +
                         static_cast<double>(Bytes(l)) / platform_.offload_bytes_per_second;
  const Event ready = Later(compute_, values_[l].prefetched);
  const Span span = Transfer(to_host_, ready, seconds);
  values_[l].offloaded = {span.end_seconds, index_};
  return span;
}

Queues::Span Queues::Release(int l) {
  Event done = Later(compute_, released_);
  done = Later(done, values_[l].offloaded);
  Span span{done.seconds, done.seconds, std::nullopt};
  if (done.seconds > compute_.seconds) span.waits_for = done.operation;
  released_ = {done.seconds, index_};
  return span;
}

Queues::Span Queues::Prefetch(int l) {
  const double seconds = platform_.transfer_latency_seconds +
                         static_cast<double>(Bytes(l)) / platform_.prefetch_rate();
  Event& queue = platform_.half_duplex ? to_host_ : to_device_;
  const Span span = Transfer(queue, Later(compute_, released_), seconds);
  values_[l].prefetched = {span.end_seconds, index_};
  return span;
}

int64_t Queues::Bytes(int l) const {
  if (!values_[l].saved) return chain_.output_bytes(l);
  return chain_.stage(l).SavedBytes(values_[l].save_option);
}

}  // namespace stowage

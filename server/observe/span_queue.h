// Traced calls that wait to be sent to a collector: bounded, and never in a call's way.
#ifndef STOWAGE_SERVER_OBSERVE_SPAN_QUEUE_H_
#define STOWAGE_SERVER_OBSERVE_SPAN_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/events/observer.h"
#include "solver/base/mutex.h"

namespace stowage {

// What became of spans, since the start.
struct SpanCounts {
  int64_t sent = 0;
  int64_t dropped = 0;  // the queue was full, or a call had too many steps
  int64_t failed = 0;   // the collector did not take them
};

// The spans of all calls.
size_t CountSpans(const std::vector<TracedCall>& calls);

// One thread takes what many add. Thread-safe.
class SpanQueue {
 public:
  static constexpr size_t kMaxSpans = 8192;   // some 6 MiB at most
  static constexpr size_t kBatchSpans = 512;  // a batch has one call at least, and ends after these

  // Drops a call for whose spans there is no room.
  void Add(TracedCall call);

  // Waits for a call, and then for others until a batch is full or `gather` has passed. Empty: the
  // queue is closed and empty.
  std::vector<TracedCall> Take(std::chrono::steady_clock::duration gather);

  // From here on Take() waits no longer.
  void Close();

  void Sent(int64_t spans);
  void Failed(int64_t spans);
  SpanCounts counts() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TracedCall> calls_ ABSL_GUARDED_BY(mutex_);
  size_t spans_ ABSL_GUARDED_BY(mutex_) = 0;  // of the calls
  SpanCounts counts_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_SPAN_QUEUE_H_

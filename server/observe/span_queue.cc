#include "server/observe/span_queue.h"

#include <algorithm>
#include <utility>

namespace stowage {

size_t CountSpans(const std::vector<TracedCall>& calls) {
  size_t spans = 0;
  for (const TracedCall& call : calls) spans += call.size();
  return spans;
}

void SpanQueue::Add(TracedCall call) {
  MutexLock lock(mutex_);
  const size_t spans = call.size();
  counts_.dropped += static_cast<int64_t>(call.left_out);
  if (spans_ + spans > kMaxSpans) {
    counts_.dropped += static_cast<int64_t>(spans);
    return;
  }
  calls_.push_back(std::move(call));
  spans_ += spans;
  changed_.Signal();
}

std::vector<TracedCall> SpanQueue::Take(std::chrono::steady_clock::duration gather) {
  MutexLock lock(mutex_);
  while (calls_.empty() && !closed_) changed_.Wait(mutex_);
  const auto due = std::chrono::steady_clock::now() + gather;
  while (spans_ < kBatchSpans && !closed_ && changed_.WaitUntil(mutex_, due)) {
  }
  std::vector<TracedCall> batch;
  batch.reserve(std::min(calls_.size(), kBatchSpans));  // or throws before a call is taken
  size_t taken = 0;
  while (!calls_.empty() && taken < kBatchSpans) {
    taken += calls_.front().size();
    batch.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  spans_ -= taken;
  return batch;
}

void SpanQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.Signal();
}

void SpanQueue::Sent(int64_t spans) {
  MutexLock lock(mutex_);
  counts_.sent += spans;
}

void SpanQueue::Failed(int64_t spans) {
  MutexLock lock(mutex_);
  counts_.failed += spans;
}

SpanCounts SpanQueue::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace stowage

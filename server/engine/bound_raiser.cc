#include "server/engine/bound_raiser.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/reuse.h"

namespace stowage {

void BoundRaiser::Add(KeyedRequestPtr request, CachedAnswerPtr cached) {
  if (resources_.stop_all.stop_requested()) return;
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return;
    waiting_.push_back({std::move(request), std::move(cached)});
    if (waiting_.size() > 1) return;
  }
  Enqueue();
}

void BoundRaiser::Forget(const Fingerprint& rounded) {
  MutexLock lock(mutex_);
  for (Waiting& answer : waiting_) {
    if (answer.request->keys.rounded == rounded) answer.is_forgotten = true;
  }
}

void BoundRaiser::Enqueue() {
  constexpr int64_t kBytes = int64_t{100} << 20;
  const auto drop = [this](const std::vector<std::string>& /*clients*/, const absl::Status&) {
    MutexLock lock(mutex_);
    waiting_.clear();
  };
  // A server with less memory for its solves raises bounds, too: most chains take far less.
  const int64_t bytes = std::min(kBytes, resources_.options.all_solves_bytes);
  const auto added = resources_.solves.Add(
      {.run = [this] { RaiseNext(); }, .bytes = bytes, .is_short = true, .drop = drop});
  if (!added.ok()) drop({}, added.status());
}

void BoundRaiser::RaiseNext() {
  Waiting next;
  {
    MutexLock lock(mutex_);
    next = waiting_.front();
  }
  const KeyedRequest& keyed = *next.request;
  CachedAnswerPtr closer;
  // Another caller may have had it raised, or solved, since.
  if (!next.is_forgotten && FindInMemory(resources_.cache, keyed.request, keyed.keys) == nullptr) {
    closer = WithCloserBound(keyed.request, *next.cached, resources_.stop_all.get_token());
  }
  {
    MutexLock lock(mutex_);
    // Under the lock: what Forget() comes too late for is in memory when it returns.
    if (closer != nullptr && !waiting_.front().is_forgotten) resources_.cache.PutInMemory(closer);
    waiting_.pop_front();
    if (resources_.stop_all.stop_requested()) waiting_.clear();
    if (waiting_.empty()) return;
  }
  Enqueue();
}

}  // namespace stowage

#include "server/engine/solves/bound_raiser.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/solves/reuse.h"

namespace stowage {

void BoundRaiser::Add(const KeyedRequestPtr& request, const CachedAnswerPtr& cached) {
  constexpr int64_t kBytes = int64_t{100} << 20;
  int64_t forgotten = 0;
  {
    MutexLock lock(mutex_);
    forgotten = forgotten_;
  }
  const auto raise = [this, request, cached, forgotten] {
    // Another caller may have had it raised, or solved, since.
    if (FindInMemory(resources_.cache, *request) != nullptr) return;
    const CachedAnswerPtr closer =
        WithCloserBound(request->request, *cached, resources_.stop_all.get_token());
    // Under the lock: what Forget() comes too late for is in memory when it returns.
    MutexLock lock(mutex_);
    if (closer != nullptr && forgotten == forgotten_) resources_.cache.PutInMemory(closer);
  };
  constexpr const char* kClient = "(bounds)";  // no token, certificate or host has that name
  // It may lose its place to a solve, for which somebody waits.
  const auto drop = [](const std::vector<std::string>& /*clients*/, const absl::Status&) {};
  // A server with less memory for its solves raises bounds, too: most chains take far less.
  (void)resources_.solves.Add({.run = raise,
                               .client = kClient,
                               .bytes = std::min(kBytes, resources_.options.all_solves_bytes),
                               .max_of_client = kMaxWaiting,
                               .is_short = true,
                               .drop = drop});
}

void BoundRaiser::Forget() {
  MutexLock lock(mutex_);
  ++forgotten_;
}

}  // namespace stowage

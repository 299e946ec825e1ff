// Raises the lower bounds of answers that cache tiers had; their callers do not wait for that.
#ifndef STOWAGE_SERVER_ENGINE_BOUND_RAISER_H_
#define STOWAGE_SERVER_ENGINE_BOUND_RAISER_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "server/cache/answer_cache.h"
#include "server/cache/cache_keys.h"
#include "server/engine/engine_resources.h"
#include "server/engine/shared_solve.h"
#include "solver/base/mutex.h"

namespace stowage {

// An answer waits for its turn on a solver thread and is put in memory once its bound is raised:
// one at a time, as if all were work of one client. Until then, and where too many wait, equal
// requests find it in the tier again. Thread-safe.
class BoundRaiser {
 public:
  static constexpr size_t kMaxWaiting = 32;  // each holds a request

  // Borrows the resources, whose threads must end first.
  explicit BoundRaiser(EngineResources& resources) : resources_(resources) {}

  // `cached` answers the request under the quick bound. Does nothing where too many wait.
  void Add(KeyedRequestPtr request, CachedAnswerPtr cached);
  // Answers with that CacheKeys::rounded that wait now are not put in memory.
  void Forget(const Fingerprint& rounded);

 private:
  struct Waiting {
    KeyedRequestPtr request = {};
    CachedAnswerPtr cached = {};
    bool is_forgotten = false;
  };
  void Enqueue();
  void RaiseNext();

  EngineResources& resources_;
  Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // the first is queued, or under way
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_BOUND_RAISER_H_

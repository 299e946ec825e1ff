// Raises the lower bounds of answers that cache tiers had; their callers do not wait for that.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_BOUND_RAISER_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_BOUND_RAISER_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "server/cache/answer_cache.h"
#include "server/engine/solves/engine_resources.h"
#include "server/engine/solves/waiter.h"
#include "solver/base/mutex.h"

namespace stowage {

// An answer waits for its turn on a solver thread, as if all were work of one client, and is put in
// memory once its bound is raised. Until then, and where too many wait, equal requests find it in
// the tier again. Thread-safe.
class BoundRaiser {
 public:
  static constexpr size_t kMaxWaiting = 32;  // each holds a request

  // Borrows the resources, whose threads must end first.
  explicit BoundRaiser(EngineResources& resources) : resources_(resources) {}

  // `cached` answers the request under the quick bound. Does nothing where too many wait.
  void Add(const KeyedRequestPtr& request, const CachedAnswerPtr& cached);
  // Answers that wait now are not put in memory: an operator drops one of them.
  void Forget();

 private:
  EngineResources& resources_;
  Mutex mutex_;
  int64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;  // how often
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_BOUND_RAISER_H_

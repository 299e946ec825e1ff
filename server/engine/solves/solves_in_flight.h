// The solves that have not ended, and who shares one: equal requests.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVES_IN_FLIGHT_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVES_IN_FLIGHT_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/cache/cache_keys.h"
#include "server/engine/solves/shared_solve.h"
#include "server/engine/solves/waiter.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe. Its lock is held while waiters join, hence before that of a solve; nothing is called
// back under it.
class SolvesInFlight {
 public:
  // Joins the waiter to the solve of an equal request, or else to a new one, in which its id is 1
  // and which the caller is to begin. Requests that do not use the cache have solves of their own.
  SolvePtr Join(const WaiterPtr& waiter);
  // The same for waiters whom the schedule of a shared solve does not fit: those with equal exact
  // requests share one. All join before another thread sees the solves: a short one would otherwise
  // end before the last has come. Returns the solve of each.
  std::vector<SolvePtr> JoinExact(const std::vector<WaiterPtr>& waiters);
  // From here on equal requests start a new solve.
  void Forget(const SolvePtr& solve);

  // Those that other requests may join.
  size_t size() const;
  // All, those that have run longest first.
  std::vector<SolveInFlight> List() const;
  // Those with that CacheKeys::rounded.
  std::vector<SolvePtr> WithFingerprint(const Fingerprint& fingerprint) const;

 private:
  using SolveMap = absl::flat_hash_map<Fingerprint, SolvePtr>;
  SolvePtr JoinUnder(const Fingerprint& key, SolveMap& solves, const WaiterPtr& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SolvePtr Begun(const WaiterPtr& first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  // Those that may be joined: by CacheKeys::rounded, and, where the schedule of such a solve did
  // not do for some of its waiters, by their CacheKeys::exact.
  SolveMap solves_ ABSL_GUARDED_BY(mutex_);
  SolveMap exact_solves_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<SolvePtr> in_flight_ ABSL_GUARDED_BY(mutex_);  // those and the others
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVES_IN_FLIGHT_H_

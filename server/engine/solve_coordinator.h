// Takes a Solve request from its miss in memory to its answer: it joins the solve of an equal
// request that is under way, or else goes to the cache tier below, the queue, a solver thread and
// into both caches. A cached answer is simulated on the caller's chain; where it does not fit, the
// request is solved.
#ifndef STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_
#define STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine_resources.h"
#include "server/engine/pending_requests.h"
#include "server/engine/running_solves.h"
#include "server/engine/shared_solve.h"
#include "solver/algorithms/solver.h"
#include "solver/base/mutex.h"
#include "solver/model/answer.h"
#include "solver/solve/request_instances.h"

namespace stowage {

// Thread-safe.
class SolveCoordinator {
 public:
  // Borrows both.
  SolveCoordinator(EngineResources& resources, PendingRequests& pending)
      : resources_(resources), pending_(pending) {}

  // Takes over a request that has begun: calls its listener's Done() once, then Finish() of the
  // pending requests, from any thread, perhaps before Join() returns.
  void Join(const WaiterPtr& waiter);

  // Solves in flight that other requests may join.
  size_t size() const;

  // All solves in flight, those that have run longest first.
  std::vector<SolveInFlight> List() const;

  struct Cancelled {
    int64_t solves = 0;
    int64_t callers = 0;  // that got ABORTED
  };
  // Stops the solves with that CacheKeys::rounded.
  Cancelled Cancel(const Fingerprint& fingerprint);

 private:
  using SolvePtr = std::shared_ptr<SharedSolve>;

  // The steps, in their order.
  void SolveAlone(const WaiterPtr& waiter);
  void Watch(const SolvePtr& solve, const WaiterPtr& waiter);
  void TimeIsUp(const SolvePtr& solve, uint64_t id);
  void Start(const SolvePtr& solve);
  void Enqueue(const SolvePtr& solve);
  void Run(const SolvePtr& solve, const RequestInstances& instances);
  SolveContext ContextOf(const SolvePtr& solve, RunningSolves::Place& place, std::stop_token stop);
  void Cache(const CachedAnswerPtr& answer);
  void Forget(const SolvePtr& solve);

  // The end, for one waiter and for all of a solve.
  void End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result);
  void EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached, Origin::Source source);
  void EndAll(const SolvePtr& solve, const absl::Status& status);
  void EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                   const absl::Status& otherwise);

  EngineResources& resources_;
  PendingRequests& pending_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Fingerprint, SolvePtr> solves_
      ABSL_GUARDED_BY(mutex_);  // those that may be joined, by CacheKeys::rounded
  absl::flat_hash_set<SolvePtr> in_flight_ ABSL_GUARDED_BY(mutex_);  // those and the others
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_

// The service without its transport: answers requests from the cache, and solves each other request
// once for all callers that send it at the same time, bounded in number, memory and time.
// Independent of gRPC, so that all of it is tested under ThreadSanitizer.
//
// A request gets its cache keys (cache_keys.h), is looked up in memory, joins the solve of an equal
// request that is under way, or else goes to the cache tier below, the queue, a solver thread and
// into both caches. A cached answer is simulated on the caller's chain; where it does not fit, the
// request is solved.
#ifndef STOWAGE_SERVER_ENGINE_ENGINE_H_
#define STOWAGE_SERVER_ENGINE_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/cache/answer_cache.h"
#include "server/engine/running_solves.h"
#include "server/engine/shared_solve.h"
#include "server/engine/timers.h"
#include "server/engine/work_queue.h"
#include "server/observe/observer.h"
#include "solver/base/mutex.h"
#include "solver/base/thread_pool.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/request_instances.h"

namespace stowage {

struct EngineOptions {
  int threads = 1;                              // solves that run at once; one alone may use all
  size_t queue_length = 256;                    // solves that wait beyond those
  size_t client_limit = 64;                     // of them, waiting or running, of one client
  int64_t solve_bytes = int64_t{4} << 30;       // the most memory that one solve may take,
  int64_t all_solves_bytes = int64_t{8} << 30;  // and all that run at once
};

struct EngineStats {
  WorkQueue::Stats solves;
  std::vector<RunningSolve> running;  // the ones that solver threads work on
  size_t requests = 0;                // in flight, equal ones counted once
  int threads = 0;                    // of solves
  size_t queue_length = 0;            // as in the options
};

// Thread-safe.
class Engine {
 public:
  using FrontierDone = absl::AnyInvocable<void(absl::StatusOr<FrontierResult>)>;
  using SimulateDone = absl::AnyInvocable<void(absl::StatusOr<ExplainedSimulation>)>;

  // Borrows both.
  Engine(const EngineOptions& options, AnswerCache* cache, Observer* observer);
  ~Engine();  // Requires: Drain() has returned, or there was no request.

  // Calls the listener's Done() with the answer: from a thread of the engine, or from the caller's
  // before Solve() returns. A solve stops within 50 ms after its last caller has left. A caller
  // whose deadline or time budget comes first gets the best schedule so far shortly before it; a
  // time budget alone waits for the first schedule. Errors: those of AnswerRequest() and
  // WorkQueue::Add(); CANCELLED for a caller that left; UNAVAILABLE when draining. Requires:
  // RequestViolations(request) is empty.
  void Solve(SolveRequest request, Caller caller, std::shared_ptr<SolveListener> listener);

  // Calls `done` exactly once, as above. Errors: those of stowage::FindFrontier(), and as above.
  // Requires: RequestViolations(request) is empty.
  void FindFrontier(FrontierRequest request, Caller caller, FrontierDone done);

  // The same for a simulation. Requires: as Simulate() of solver/simulator.
  void Simulate(SimulateRequest request, Caller caller, SimulateDone done);

  // Refuses new requests with UNAVAILABLE and waits for the others. Solves that still run at
  // `deadline` are stopped; their callers get the best schedule so far, or UNAVAILABLE.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Whether Drain() was called.
  bool draining() const;
  EngineStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  using SolvePtr = std::shared_ptr<SharedSolve>;

  // Counts a request that is in flight, from Begin() to Finish(). UNAVAILABLE when draining.
  absl::Status Begin();
  void Finish();

  // The steps of a request that is not in the memory cache.
  void Join(const WaiterPtr& waiter);
  void Watch(const SolvePtr& solve, const WaiterPtr& waiter);
  void TimeIsUp(const SolvePtr& solve, uint64_t id);
  void Start(const SolvePtr& solve);
  void Enqueue(const SolvePtr& solve);
  void Run(const SolvePtr& solve, const RequestInstances& instances);
  SolveContext ContextOf(const SolvePtr& solve, RunningSolves::Place& place, std::stop_token stop);
  int64_t BytesFor(const SolveRequest& request, const RequestInstances& instances) const;
  absl::StatusOr<int64_t> BytesForFrontier(const FrontierRequest& request) const;
  void Cache(const CachedAnswerPtr& answer);

  // Its end, for one waiter and for all of a solve.
  void End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result);
  void EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached, Origin::Source source);
  void EndAll(const SolvePtr& solve, const absl::Status& status);
  void EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                   const absl::Status& otherwise);
  void SolveAlone(const WaiterPtr& waiter);
  void Forget(const SolvePtr& solve);

  const EngineOptions options_;
  AnswerCache& cache_;
  Observer& observer_;
  RunningSolves running_;
  std::stop_source stop_all_;

  mutable Mutex mutex_;
  CondVar idle_;
  absl::flat_hash_map<Fingerprint, SolvePtr> solves_
      ABSL_GUARDED_BY(mutex_);                  // by CacheKeys::rounded
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;  // requests that have not ended
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  std::optional<ThreadPool> helpers_;  // lent to one solve at a time
  Timers timers_;
  WorkQueue quick_;  // short work: the cache tier below, simulations
  WorkQueue queue_;  // solves; last, because its threads use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_ENGINE_H_

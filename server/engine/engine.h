// The service without its wire: answers questions from what it knows, solves each other one once
// for all who ask it at the same time, bounded in number, memory and time. Knows nothing of gRPC,
// so it can be tested whole under ThreadSanitizer.
//
// The life of a question: its keys (fingerprint.h), the cache in memory, the solve of the same
// question that is under way, if any; else the store, the queue, a thread, the simulator, both
// caches. A known answer is simulated on the exact question, and where it does not fit the question
// is solved.
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
#include "server/cache/cache_tier.h"
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

namespace stowage {

struct EngineOptions {
  int threads = 1;                              // solves that run at once; one alone may use all
  size_t queue_length = 256;                    // solves that wait beyond those
  size_t client_limit = 64;                     // of them, waiting or running, of one client
  int64_t solve_bytes = int64_t{4} << 30;       // the most memory that one solve may take,
  int64_t all_solves_bytes = int64_t{8} << 30;  // and all that run at once
  int64_t cache_bytes = int64_t{256} << 20;     // of answers in memory
};

struct EngineStats {
  WorkQueue::Stats solves;
  std::vector<RunningSolve> running;  // of them, those that solvers work on
  size_t questions = 0;               // in flight, each however often it was asked
  int threads = 0;                    // of solves, and
  size_t queue_length = 0;            // how many may wait, as in the options
  CacheTierStats memory;
};

// Thread-safe.
class Engine {
 public:
  using FrontierDone = absl::AnyInvocable<void(absl::StatusOr<FrontierResult>)>;
  using SimulateDone = absl::AnyInvocable<void(absl::StatusOr<ExplainedSimulation>)>;

  // `store` keeps answers beyond this process; null: none. Borrows both.
  Engine(const EngineOptions& options, CacheTier* store, Observer* observer);
  ~Engine();  // Requires: Drain() has returned, or nothing was asked.

  // The listener's Done() gets the answer: from a thread of the engine, or from the caller's before
  // Solve() returns. A solve ends within 50 ms of its last caller's leaving. A caller whose
  // deadline or time budget comes first gets the best schedule so far shortly before; a budget
  // alone waits for the first. Errors: AnswerRequest()'s, those of WorkQueue::Add(), CANCELLED to
  // one who left, and UNAVAILABLE when draining. Requires: RequestViolations(request) is empty.
  void Solve(SolveRequest request, Caller caller, std::shared_ptr<SolveListener> listener);

  // Calls `done` exactly once, as above. Errors: stowage::FindFrontier()'s and so on.
  // Requires: RequestViolations(request) is empty.
  void FindFrontier(FrontierRequest request, Caller caller, FrontierDone done);

  // The same for a simulation. Requires: as Simulate() of solver/simulator.
  void Simulate(SimulateRequest request, Caller caller, SimulateDone done);

  // Refuses new requests with UNAVAILABLE and waits for the others; those that still run at
  // `deadline` are stopped and end with their best schedule so far, or UNAVAILABLE.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Whether Drain() was called: nothing more is answered.
  bool draining() const;
  EngineStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  using SolvePtr = std::shared_ptr<SharedSolve>;

  absl::Status Begin();  // of a request; each that is OK needs a Finish()
  void Finish();

  // A question on its way.
  void Join(const WaiterPtr& waiter);
  void Watch(const SolvePtr& solve, const WaiterPtr& waiter);
  void TimeIsUp(const SolvePtr& solve, uint64_t id);
  void Start(const SolvePtr& solve);
  void Enqueue(const SolvePtr& solve);
  void Run(const SolvePtr& solve);
  SolveContext ContextOf(const SolvePtr& solve, RunningSolves::Place& place, std::stop_token stop);
  int64_t BytesFor(const SolveRequest& request) const;
  void Keep(const KnownAnswerPtr& known, bool in_store);

  // Its end, for one and for all who wait.
  void End(const WaiterPtr& waiter, absl::StatusOr<Solved> result);
  void EndAll(const SolvePtr& solve, const KnownAnswerPtr& known, Source source);
  void EndAll(const SolvePtr& solve, const absl::Status& status);
  void EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                   const absl::Status& otherwise);
  void Forget(const SolvePtr& solve);

  const EngineOptions options_;
  Observer& observer_;
  KnownAnswers known_;
  RunningSolves running_;
  std::stop_source stop_all_;

  mutable Mutex mutex_;
  CondVar idle_;
  absl::flat_hash_map<Fingerprint, SolvePtr> solves_ ABSL_GUARDED_BY(mutex_);  // by rounded key
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;  // requests that have not ended
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  std::optional<ThreadPool> helpers_;  // for a solve that runs while others do not
  Timers timers_;
  WorkQueue quick_;  // what takes a moment: the store, simulations
  WorkQueue queue_;  // solves; last: its threads use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_ENGINE_H_

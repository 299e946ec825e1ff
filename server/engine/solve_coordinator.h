// Takes a Solve request from its miss in memory to its answer: it joins the solve of an equal
// request that is under way, or else goes to the cache tier below, the queue, a solver thread and
// into both caches. A cached answer is simulated on the caller's chain; where it does not fit, the
// request is solved. Where servers share a tier, the one that has the lease of a request solves it,
// and the others wait until they find its answer in the tier.
#ifndef STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_
#define STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "server/cache/answer_cache.h"
#include "server/engine/bound_raiser.h"
#include "server/engine/engine_resources.h"
#include "server/engine/held_lease.h"
#include "server/engine/pending_requests.h"
#include "server/engine/running_solves.h"
#include "server/engine/shared_solve.h"
#include "server/engine/work_queue.h"
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
      : resources_(resources), pending_(pending), bounds_(resources) {}

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

  // As BoundRaiser::Forget().
  void ForgetRaised() { bounds_.Forget(); }

 private:
  using SolvePtr = std::shared_ptr<SharedSolve>;
  using HeldLeasePtr = std::shared_ptr<HeldLease>;
  using SolveMap = absl::flat_hash_map<Fingerprint, SolvePtr>;

  // The steps, in their order.
  SolvePtr JoinUnder(const Fingerprint& key, SolveMap& solves, const WaiterPtr& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(const SolvePtr& solve, const WaiterPtr& waiter);
  void Watch(const SolvePtr& solve, const WaiterPtr& waiter);
  void TimeIsUp(const SolvePtr& solve, uint64_t id);
  void FindFirst(const SolvePtr& solve);
  void Improved(const SolvePtr& solve, Answer better);
  void LookUp(const SolvePtr& solve);
  bool EndFromTiers(const SolvePtr& solve);
  void Enqueue(const SolvePtr& solve);
  using TicketSetter = std::vector<std::string> (SharedSolve::*)(uint64_t ticket);
  void AddInTurn(const SolvePtr& solve, WorkQueue& queue, TicketSetter set_ticket,
                 absl::FunctionRef<Work(const Caller& owner)> make);
  void Drop(const SolvePtr& solve, const std::vector<std::string>& clients,
            const absl::Status& status);
  void UpdateLine(const SolvePtr& solve, const std::string& client);
  void Run(const SolvePtr& solve, const RequestInstances& instances);
  bool IsLeftToOther(const SolvePtr& solve, HeldLeasePtr* lease);
  void AwaitOther(const SolvePtr& solve, Timers::Clock::time_point seen);
  void LookAgain(const SolvePtr& solve, Timers::Clock::time_point seen);
  bool MayAwaitOther(const SolvePtr& solve, Timers::Clock::time_point seen);
  SolveContext ContextOf(const SolvePtr& solve, RunningSolves::Place& place, std::stop_token stop,
                         const HeldLeasePtr& lease);
  void Cache(const CachedAnswerPtr& answer);

  void Forget(const SolvePtr& solve);

  // The end, for one waiter and for all of a solve.
  void End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result);
  void EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached, Origin::Source source);
  void EndAll(const SolvePtr& solve, const absl::Status& status);
  void SimulateInTurn(const SolvePtr& solve, const std::string& client);
  void SimulateNext(const SolvePtr& solve, const std::string& client);
  void EndSimulated(const SolvePtr& solve, const ToSimulate& simulation);
  void EndLate(const SolvePtr& solve, const ToSimulate& simulation);
  void EndSolved(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& answer,
                 Origin::Source source);
  void SolveAgain(const std::vector<WaiterPtr>& waiters);
  void EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                   const absl::Status& otherwise);
  void Unwatch(Waiter& waiter);

  EngineResources& resources_;
  PendingRequests& pending_;
  mutable Mutex mutex_;
  // Those that may be joined: by CacheKeys::rounded, and, where the schedule of such a solve did
  // not do for some of its waiters, by their CacheKeys::exact.
  SolveMap solves_ ABSL_GUARDED_BY(mutex_);
  SolveMap exact_solves_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<SolvePtr> in_flight_ ABSL_GUARDED_BY(mutex_);  // those and the others
  BoundRaiser bounds_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVE_COORDINATOR_H_

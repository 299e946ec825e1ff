// The service without its transport: answers requests from the cache, and solves each other request
// once for all callers that send it at the same time, bounded in number, memory and time.
// Independent of gRPC, so that all of it is tested under ThreadSanitizer.
//
// A request gets its cache keys (cache_keys.h) and is looked up in memory; on a miss
// solve_coordinator.h takes it over.
#ifndef STOWAGE_SERVER_ENGINE_ENGINE_H_
#define STOWAGE_SERVER_ENGINE_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/cache/answer_cache.h"
#include "server/cache/solve_leases.h"
#include "server/engine/frontiers_in_flight.h"
#include "server/engine/limits/pending_requests.h"
#include "server/engine/limits/request_bytes.h"
#include "server/engine/queue/plain_job.h"
#include "server/engine/queue/running_solves.h"
#include "server/engine/queue/work_queue.h"
#include "server/engine/solves/engine_resources.h"
#include "server/engine/solves/shared_solve.h"
#include "server/engine/solves/solve_coordinator.h"
#include "server/events/observer.h"
#include "solver/export/export.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"
#include "solver/solve/answer_request.h"

namespace stowage {

struct EngineStats {
  WorkQueue::Stats solves;
  std::vector<RunningSolve> running;  // the ones that solver threads work on
  size_t requests = 0;                // in flight, equal ones counted once
  int threads = 0;                    // of solves
  size_t queue_length = 0;            // as in the options, or as it was set last
  int64_t max_request_bytes = 0;      // likewise
};

// Thread-safe.
class Engine {
 public:
  using FrontierDone = FrontierCall::Done;
  using SimulateDone = absl::AnyInvocable<void(absl::StatusOr<ExplainedSimulation>)>;
  using SettingDone = absl::AnyInvocable<void(absl::StatusOr<TargetPlan>)>;

  // Borrows all three. `leases`: of servers that have a tier of the cache in common; null: this
  // server solves whatever no tier has.
  Engine(const EngineOptions& options, AnswerCache* cache, Observer* observer,
         SolveLeases* leases = nullptr);
  ~Engine();  // Requires: Drain() has returned, or there was no request.

  // Calls the listener's Done() with the answer: from a thread of the engine, or from the caller's
  // before Solve() returns. A solve stops within 50 ms after its last caller has left. A caller
  // whose deadline or time budget comes first gets the best schedule so far shortly before it; a
  // time budget alone waits for the first schedule. Errors: those of AnswerRequest(),
  // WorkQueue::Add() and RequestBytes; CANCELLED for a caller that left; UNAVAILABLE when draining.
  // Returns the request that the caller waits with, which may be that of another one and then
  // differs in options that concern the call alone; null: it does not wait. Requires:
  // RequestViolations(request) is empty.
  KeyedRequestPtr Solve(SolveRequest request, Caller caller,
                        std::shared_ptr<SolveListener> listener);

  // The same for a caller with an equal request, which costs nothing of what a request costs.
  // Requires: Solve() returned `keyed` for a request that may be cached.
  void SolveEqual(KeyedRequestPtr keyed, double time_budget_seconds, Caller caller,
                  std::shared_ptr<SolveListener> listener);

  // Calls `done` exactly once, as above. Operators stop it by `fingerprint`; empty: they cannot.
  // Errors: those of stowage::FindFrontier(), ABORTED for one that was stopped, and as above.
  // Requires: RequestViolations(request) is empty.
  void FindFrontier(FrontierRequest request, Caller caller, FrontierDone done,
                    std::string fingerprint = "");

  // The same for a simulation. Errors: those of SimulateAndExplain(), and as above. Requires: as
  // Simulate() of solver/simulator.
  void Simulate(SimulateRequest request, Caller caller, SimulateDone done);

  // The same for stowage::FindSetting() of solver/export, which gets so many seconds, and no more
  // than there are until the caller's deadline.
  void FindSetting(std::shared_ptr<const ExportRequest> request, double max_seconds, Caller caller,
                   SettingDone done);

  // For a request that takes several of these calls: Drain() waits for it, and refuses none of its
  // calls, whose callers are `is_part`. UNAVAILABLE when draining; after OK, EndParts() once.
  absl::Status BeginParts() { return pending_.Begin(); }
  void EndParts() { pending_.Finish(); }

  // Refuses new requests with UNAVAILABLE and waits for the others. Solves that still run at
  // `deadline` are stopped; their callers get the best schedule so far, or UNAVAILABLE.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // The memory of requests in flight, of which calls take what they hold beside the engine.
  RequestBytes& request_bytes() { return resources_.request_bytes; }

  // Solves in flight, for operators.
  std::vector<SolveInFlight> ListSolves() const { return solves_.List(); }
  // Stops those with that fingerprint; their callers get ABORTED.
  SolveCoordinator::Cancelled CancelSolves(const Fingerprint& fingerprint) {
    return solves_.Cancel(fingerprint);
  }
  // The same for frontiers.
  std::vector<FrontierInFlight> ListFrontiers() const { return frontiers_.List(); }
  int64_t CancelFrontiers(const std::string& fingerprint) { return frontiers_.Cancel(fingerprint); }

  // As AnswerCache::Remove(), with the answers that were to be put in memory later.
  absl::StatusOr<int64_t> DropAnswers(const Fingerprint& fingerprint) {
    solves_.ForgetRaised();
    return resources_.cache.Remove(fingerprint);
  }

  // As EngineOptions::max_solve_seconds, for solves that start from now on.
  void SetMaxSolveSeconds(double seconds) { resources_.max_solve_seconds = seconds; }
  // The same of the others, for requests that come from now on.
  void SetQueueLength(size_t length) { resources_.solves.SetMaxWaiting(length); }
  void SetClientLimit(size_t limit) { resources_.solves.SetMaxOfAClient(limit); }
  void SetRequestBytes(int64_t bytes) { resources_.request_bytes.SetMaxBytes(bytes); }

  // Whether Drain() was called.
  bool draining() const;
  EngineStats stats() const;

 private:
  struct Arrival {
    std::chrono::steady_clock::time_point at;
    double time_budget_seconds;
  };
  KeyedRequestPtr FindOrJoin(KeyedRequestPtr keyed, const Arrival& arrival, Caller caller,
                             std::shared_ptr<SolveListener> listener);
  absl::StatusOr<int64_t> BytesForFrontier(const FrontierRequest& request) const;
  FrontierCallPtr BeginFrontier(const FrontierRequest& request, const Caller& caller,
                                FrontierDone done, std::string fingerprint);
  template <typename Result>
  Work WorkOf(const std::shared_ptr<PlainJob<Result>>& job, const Caller& caller);

  PendingRequests pending_;
  SolveCoordinator solves_;
  FrontiersInFlight frontiers_;
  EngineResources resources_;  // last, because its threads use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_ENGINE_H_

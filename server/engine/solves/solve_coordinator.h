// Takes a Solve request from its miss in memory to its answer, by three parts: it joins the solve
// of an equal request (solves_in_flight.h), or a new one takes its course (solve_course.h), and
// each waiter gets what is due to it (solve_delivery.h).
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COORDINATOR_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/cache/cache_keys.h"
#include "server/engine/limits/pending_requests.h"
#include "server/engine/solves/engine_resources.h"
#include "server/engine/solves/shared_solve.h"
#include "server/engine/solves/solve_course.h"
#include "server/engine/solves/solve_delivery.h"
#include "server/engine/solves/solves_in_flight.h"
#include "server/engine/solves/waiter.h"

namespace stowage {

// Thread-safe; all locks are those of its parts.
class SolveCoordinator {
 public:
  // Borrows both. The threads of the resources end first.
  SolveCoordinator(EngineResources& resources, PendingRequests& pending);

  // Takes over a request that has begun: calls its listener's Done() once, then Finish() of the
  // pending requests, from any thread, perhaps before Join() returns.
  void Join(const WaiterPtr& waiter);

  // Solves in flight that other requests may join.
  size_t size() const { return in_flight_.size(); }

  // All solves in flight, those that have run longest first.
  std::vector<SolveInFlight> List() const { return in_flight_.List(); }

  struct Cancelled {
    int64_t solves = 0;
    int64_t callers = 0;  // that got ABORTED
  };
  // Stops the solves with that CacheKeys::rounded.
  Cancelled Cancel(const Fingerprint& fingerprint);

  // As BoundRaiser::Forget().
  void ForgetRaised() { course_.ForgetRaised(); }

 private:
  void Begin(const SolvePtr& solve, const WaiterPtr& waiter);
  void SolveAgain(const std::vector<WaiterPtr>& waiters);

  SolvesInFlight in_flight_;
  SolveDelivery delivery_;
  SolveCourse course_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COORDINATOR_H_

// The course of one solve, from the cache tiers through the queue to a solver thread and into the
// caches. Where servers share a tier, the one that has the lease of a request solves it, and the
// others wait until they find its answer in the tier.
//
// The state after an event, by the state before (SolveState); "-": it stays.
//
//   event                          | looking up   | queued       | elsewhere    | running
//   -------------------------------+--------------+--------------+--------------+-------------
//   a tier has the answer          | ended        | ended        | ended        |
//   no tier has it                 | queued       |              |              |
//   its turn: the lease is its own |              | running      |              |
//   another server has the lease   |              | elsewhere    | -            |
//   the other gives up, or dies    |              |              | queued       |
//   it loses its place in a queue  | -, again     | looking up   |              |
//   the solver returns             |              |              |              | ended
//   a waiter's time is up          | -, first     | -, first     | -, first     | -
//   its last waiter leaves         | ended        | ended        | ended        | ended
//   an operator cancels it         | ended        | ended        | ended        | ended
//   memory runs out                | ended        |              | ended        | ended
//   the server stops its solves    | -            | -            | queued       | ended
//
// First: a quick thread finds a schedule, with which the waiter leaves. A solve that ends without
// waiters is forgotten by whatever is queued of it, and its solver stops within 50 ms. Where leases
// do not work every turn is as if the lease were its own. Ended is for good: no event changes it,
// though waiters with other chains may still wait for their simulations (solve_delivery.h).
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COURSE_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COURSE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/answer_cache.h"
#include "server/engine/queue/running_solves.h"
#include "server/engine/queue/work_queue.h"
#include "server/engine/solves/bound_raiser.h"
#include "server/engine/solves/engine_resources.h"
#include "server/engine/solves/held_lease.h"
#include "server/engine/solves/shared_solve.h"
#include "server/engine/solves/solve_delivery.h"
#include "server/engine/solves/solves_in_flight.h"
#include "solver/algorithms/solver.h"
#include "solver/base/time/timers.h"
#include "solver/model/answer.h"
#include "solver/solve/request_instances.h"

namespace stowage {

// Thread-safe; it has no lock and keeps nothing of a solve, whose state is in SharedSolve. What is
// queued of a solve, or waits for a timer, owns it.
class SolveCourse {
 public:
  // Borrows all three. The threads of the resources end first.
  SolveCourse(EngineResources& resources, SolvesInFlight& in_flight, SolveDelivery& delivery)
      : resources_(resources), in_flight_(in_flight), delivery_(delivery), bounds_(resources) {}

  // Takes a new solve to its end: it is forgotten by SolvesInFlight, and then its waiters end by
  // SolveDelivery, from any thread, perhaps before this returns.
  void Begin(const SolvePtr& solve) { LookUp(solve); }

  // As BoundRaiser::Forget().
  void ForgetRaised() { bounds_.Forget(); }

 private:
  using Clock = Timers::Clock;
  using HeldLeasePtr = std::shared_ptr<HeldLease>;

  // Looking up.
  void LookUp(const SolvePtr& solve);
  bool EndFromTiers(const SolvePtr& solve);
  void Enqueue(const SolvePtr& solve);

  // Queued, and running.
  void Run(const SolvePtr& solve, const RequestInstances& instances);
  absl::StatusOr<Answer> Solve(const SolvePtr& solve, const RequestInstances& instances,
                               std::stop_token stop, const HeldLeasePtr& lease);
  SolveContext ContextOf(const SolvePtr& solve, RunningSolves::Place& place, std::stop_token stop,
                         const HeldLeasePtr& lease);
  void Solved(const SolvePtr& solve, Answer answer, const HeldLeasePtr& lease);
  void Cache(const CachedAnswerPtr& answer);

  // Elsewhere.
  bool IsLeftToOther(const SolvePtr& solve, HeldLeasePtr* lease);
  void AwaitOther(const SolvePtr& solve, Clock::time_point seen);
  void LookAgain(const SolvePtr& solve, Clock::time_point seen);
  bool MayAwaitOther(const SolvePtr& solve, Clock::time_point seen);

  // The work of a solve in a queue.
  using TicketSetter = std::vector<std::string> (SharedSolve::*)(uint64_t ticket);
  void AddInTurn(const SolvePtr& solve, WorkQueue& queue, TicketSetter set_ticket,
                 absl::FunctionRef<Work(const Caller& owner)> make);
  void Drop(const SolvePtr& solve, const std::vector<std::string>& clients,
            const absl::Status& status);

  EngineResources& resources_;
  SolvesInFlight& in_flight_;
  SolveDelivery& delivery_;
  BoundRaiser bounds_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_COURSE_H_

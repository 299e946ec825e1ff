// What the waiters of a solve get from it, and when: the answer, the best schedule so far where
// their time is up, each on their own chain.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_DELIVERY_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_DELIVERY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "server/cache/answer_cache.h"
#include "server/cache/cache_tier.h"
#include "server/engine/limits/pending_requests.h"
#include "server/engine/solves/engine_resources.h"
#include "server/engine/solves/shared_solve.h"
#include "server/engine/solves/waiter.h"
#include "solver/model/answer.h"

namespace stowage {

// Every waiter ends once: whoever removes it from its solve, which only one thread can, calls End()
// for it, or hands it to the simulations or to SolveAgain. Thread-safe. It has no lock of its own,
// and listeners are called without any.
class SolveDelivery {
 public:
  // Takes waiters whom the schedule of their solve does not fit, all of one exact request. They
  // have ended for that solve, without a result.
  using SolveAgain = std::function<void(const std::vector<WaiterPtr>& waiters)>;

  // Borrows the resources, whose threads end first, and the requests.
  SolveDelivery(EngineResources& resources, PendingRequests& pending, SolveAgain solve_again)
      : resources_(resources), pending_(pending), solve_again_(std::move(solve_again)) {}

  // From here on the waiter, which has joined the solve, is removed when its caller leaves or its
  // time is up. Called once, by the thread that joined it; the waiter may end before it returns.
  void Watch(const SolvePtr& solve, const WaiterPtr& waiter);

  // A client has what is queued of a solve in its line as long as it has a waiter. To be called
  // after a waiter has come or gone, and after the solve was queued.
  void UpdateLine(const SolvePtr& solve, const std::string& client);

  // The solve has a better schedule: waiters whose time was up leave with it, the others are told.
  void Improved(const SolvePtr& solve, Answer better);

  // Ends a waiter that was removed from its solve: its listener's Done(), then its request's
  // PendingRequests::Finish().
  void End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result);
  // Ends all waiters of a solve, which nobody can join any more: with an answer, simulated first on
  // each chain that was not the solved one; with the best schedule so far, or `otherwise` where
  // there is none or it does not fit; with an error.
  void EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached, Origin::Source source);
  void EndAllWithBest(const SolvePtr& solve, const absl::Status& otherwise);
  void EndAll(const SolvePtr& solve, const absl::Status& status);

 private:
  void TimeIsUp(const SolvePtr& solve, uint64_t id);
  void FindFirst(const SolvePtr& solve);
  void Release(Waiter& waiter);
  void EndSolved(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& answer,
                 Origin::Source source);
  void EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                   const absl::Status& otherwise);
  void SimulateInTurn(const SolvePtr& solve, const std::string& client);
  void SimulateNext(const SolvePtr& solve, const std::string& client);
  void EndSimulated(const SolvePtr& solve, const ToSimulate& simulation);
  void EndLate(const SolvePtr& solve, const ToSimulate& simulation);

  EngineResources& resources_;
  PendingRequests& pending_;
  const SolveAgain solve_again_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SOLVE_DELIVERY_H_

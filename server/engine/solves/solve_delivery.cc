#include "server/engine/solves/solve_delivery.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "server/engine/queue/work_queue.h"
#include "server/engine/solves/reuse.h"
#include "solver/base/mutex.h"
#include "solver/base/time/clock.h"
#include "solver/base/time/timers.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

using Clock = Timers::Clock;

absl::Status NoneInTime() {
  return absl::DeadlineExceededError(
      "time ran out before a schedule was found that fits; allow more");
}

absl::Status CallerLeft() {
  return absl::CancelledError("the caller no longer waits for the answer");
}

// What takes the time of simulating the best schedule on another chain, which is as long.
int64_t SimulatedSteps(const SharedSolve& solve) {
  const AnswerPtr best = solve.best();  // null: "nothing fits" is to be checked
  return solve.request().chain.length() +
         (best != nullptr ? static_cast<int64_t>(best->schedule.operations.size()) : 0);
}

// A waiter that joined a running solve did not wait in the queue, and its solve time begins when it
// arrived. One that leaves before the solve starts has spent all its time in the queue.
Origin OriginFor(const SharedSolve& solve, const Waiter& waiter, Origin::Source source) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = solve.started().value_or(now);
  return {.source = source,
          .queue_seconds = SecondsBetween(waiter.arrived, started),
          .solve_seconds = SecondsBetween(std::max(waiter.arrived, started), now),
          .fingerprint = ToHex(waiter.keys().rounded)};
}

// Of a waiter that leaves the solve that it has joined.
void RecordSteps(const Waiter& waiter) {
  using Began = SolveSteps::Began;
  if (waiter.caller.trace == nullptr) return;
  waiter.steps->RecordIn(*waiter.caller.trace, waiter.id == 1 ? Began::kByCaller : Began::kByOther);
}

}  // namespace

// Removes the waiter when its caller leaves or its time is up. Timer and callback hold the solve
// weakly and name the waiter by its id: after the waiter's end they find nothing. The waiter's lock
// orders the timer and End(): a waiter that has ended gets no timer, and End() cancels the others'.
void SolveDelivery::Watch(const SolvePtr& solve, const WaiterPtr& waiter) {
  const uint64_t id = waiter->id;
  const std::weak_ptr<SharedSolve> watched = solve;
  if (waiter->due != Clock::time_point::max()) {
    MutexLock lock(waiter->mutex);
    if (!waiter->ended) {
      waiter->timer = resources_.timers.At(waiter->due, [this, watched, id] {
        if (const SolvePtr late = watched.lock()) TimeIsUp(late, id);
      });
    }
  }
  if (!waiter->caller.stop.stop_possible()) return;
  // Called at once, on this thread, where the caller has left already.
  waiter->on_stop.emplace(waiter->caller.stop, [this, watched, id] {
    const SolvePtr left = watched.lock();
    if (left == nullptr) return;
    const WaiterPtr gone = left->Leave(id);
    if (gone == nullptr) return;
    UpdateLine(left, gone->caller.client);
    End(gone, CallerLeft());
  });
}

// On a quick thread, in the client's turn: the thread of the timers is needed for other deadlines.
// It serves only where that is refused and nothing has to be simulated.
void SolveDelivery::TimeIsUp(const SolvePtr& solve, uint64_t id) {
  AnswerPtr best;
  const WaiterPtr waiter = solve->LeaveWithBest(id, &best);
  if (waiter == nullptr) return FindFirst(solve);
  UpdateLine(solve, waiter->caller.client);
  const auto end = [this, solve, waiter, best] { EndWithBest(solve, waiter, best, NoneInTime()); };
  if (!solve->SolvesExactly(*waiter)) return end();  // queues the simulation
  const auto drop = [end](const std::vector<std::string>&, const absl::Status&) { end(); };
  if (!resources_.quick.Add({.run = end, .client = waiter->caller.client, .drop = drop}).ok()) {
    end();
  }
}

// For those whose time is up while the solve waits for its turn: a quick thread has a first
// schedule in milliseconds. Where none fits they wait for the solve.
void SolveDelivery::FindFirst(const SolvePtr& solve) {
  if (!solve->ClaimFirst()) return;
  const auto find = [this, solve] {
    std::optional<Answer> first =
        FirstAnswer(solve->request(), solve->keyed().units(), solve->stop_token());
    if (first.has_value()) Improved(solve, *std::move(first));
  };
  (void)resources_.quick.Add({.run = find, .client = solve->owner().client});
}

// Whoever waited for a first schedule leaves with this one.
void SolveDelivery::Improved(const SolvePtr& solve, Answer better) {
  const auto best = std::make_shared<const Answer>(std::move(better));
  for (const WaiterPtr& late : solve->Improved(best)) {
    UpdateLine(solve, late->caller.client);
    EndWithBest(solve, late, best, NoneInTime());
  }
}

// Waiters come and go on several threads: whoever acts last has seen the last change.
void SolveDelivery::UpdateLine(const SolvePtr& solve, const std::string& client) {
  bool waits = false;
  do {
    waits = solve->Has(client);
    const auto update = waits ? &WorkQueue::Share : &WorkQueue::Unshare;
    const SharedSolve::Tickets tickets = solve->tickets();
    (resources_.tier_calls.*update)(tickets.look_up, client);
    (resources_.solves.*update)(tickets.solve, client);
  } while (waits != solve->Has(client));
}

void SolveDelivery::End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result) {
  Release(*waiter);
  waiter->listener->Done(std::move(result));
  pending_.Finish();
}

// The timer of a waiter that has left its solve is of no use any more.
void SolveDelivery::Release(Waiter& waiter) {
  Timers::Id timer;
  {
    MutexLock lock(waiter.mutex);
    waiter.ended = true;
    timer = waiter.timer;
  }
  resources_.timers.Cancel(timer);
  RecordSteps(waiter);
}

// The waiters whose exact request was solved get the answer at once. For the others it has to be
// simulated, in the turns of each one's client. Until then they are watched.
void SolveDelivery::EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached,
                           Origin::Source source) {
  for (const WaiterPtr& waiter : solve->EndExact()) {
    EndSolved(solve, waiter, AnswerPtr(cached, &cached->answer), source);
  }
  for (const std::string& client : solve->AwaitAnswer(cached, source)) {
    SimulateInTurn(solve, client);
  }
}

void SolveDelivery::EndAllWithBest(const SolvePtr& solve, const absl::Status& otherwise) {
  const AnswerPtr best = solve->best();
  if (best == nullptr) return EndAll(solve, otherwise);
  for (const WaiterPtr& waiter : solve->End()) EndWithBest(solve, waiter, best, otherwise);
}

void SolveDelivery::EndAll(const SolvePtr& solve, const absl::Status& status) {
  for (const WaiterPtr& waiter : solve->End()) End(waiter, status);
}

// One answer of a solve counts as SOLVED, the others as COALESCED: the first caller's, or, where it
// has left, that of the first who is still there.
void SolveDelivery::EndSolved(const SolvePtr& solve, const WaiterPtr& waiter,
                              const AnswerPtr& answer, Origin::Source source) {
  if (source == Origin::Source::kSolved && !solve->ClaimSolved()) {
    source = Origin::Source::kCoalesced;
  }
  End(waiter, SolveResult{answer, OriginFor(*solve, *waiter, source)});
}

// Where another chain was solved the schedule is simulated on the waiter's own first, in the turn
// of its client; it ends with `otherwise` where the schedule does not fit there. Requires: the
// solve has a best schedule.
void SolveDelivery::EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter,
                                const AnswerPtr& best, const absl::Status& otherwise) {
  if (solve->SolvesExactly(*waiter)) {
    return End(waiter, SolveResult{best, OriginFor(*solve, *waiter, waiter->source)});
  }
  waiter->otherwise = otherwise;
  if (solve->AwaitBest(waiter)) SimulateInTurn(solve, waiter->caller.client);
}

// All that is to be simulated of a client is one work in the queue, which simulates for one exact
// request and then queues itself again: a job with noisy times has thousands of them, and others
// have their turns in between. No limit refuses it, because these requests were admitted before.
void SolveDelivery::SimulateInTurn(const SolvePtr& solve, const std::string& client) {
  const absl::Status added =
      resources_.AddSimulations(/*count=*/1, SimulatedSteps(*solve), /*limits=*/{},
                                {.run = [this, solve, client] { SimulateNext(solve, client); },
                                 .client = client,
                                 .is_readmitted = true});
  if (added.ok()) return;
  while (const std::optional<ToSimulate> refused = solve->NextToSimulate(client)) {
    for (const WaiterPtr& waiter : refused->waiters) End(waiter, added);
  }
}

void SolveDelivery::SimulateNext(const SolvePtr& solve, const std::string& client) {
  const std::optional<ToSimulate> next = solve->NextToSimulate(client);
  if (!next.has_value()) return;
  next->best != nullptr ? EndLate(solve, *next) : EndSimulated(solve, *next);
  if (solve->HasToSimulate(client)) SimulateInTurn(solve, client);
}

// Those whose chain the schedule does not fit, though it rounds to the same instance, share a solve
// of their own.
void SolveDelivery::EndSimulated(const SolvePtr& solve, const ToSimulate& simulation) {
  const Waiter& first = *simulation.waiters.front();
  const AnswerPtr answer = AnswerFromCached(*first.keyed, simulation.answer);
  if (answer == nullptr) {
    for (const WaiterPtr& waiter : simulation.waiters) Release(*waiter);
    return solve_again_(simulation.waiters);
  }
  for (const WaiterPtr& waiter : simulation.waiters) {
    EndSolved(solve, waiter, answer, simulation.source);
  }
}

// Nothing is simulated where all have left.
void SolveDelivery::EndLate(const SolvePtr& solve, const ToSimulate& simulation) {
  const auto has_left = [](const WaiterPtr& waiter) {
    return waiter->caller.stop.stop_requested();
  };
  const Waiter& first = *simulation.waiters.front();
  AnswerPtr answer;
  if (!std::ranges::all_of(simulation.waiters, has_left)) {
    answer = AnswerFromBest(*first.keyed, *simulation.best, solve->keys());
  }
  for (const WaiterPtr& waiter : simulation.waiters) {
    if (has_left(waiter)) {
      End(waiter, CallerLeft());
    } else if (answer == nullptr) {
      End(waiter, waiter->otherwise);
    } else {
      End(waiter, SolveResult{answer, OriginFor(*solve, *waiter, waiter->source)});
    }
  }
}

}  // namespace stowage

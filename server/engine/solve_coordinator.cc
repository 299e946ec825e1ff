#include "server/engine/solve_coordinator.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "server/engine/clock.h"
#include "server/engine/plain_job.h"
#include "server/engine/time_limit.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status NoneInTime() {
  return absl::DeadlineExceededError(
      "time ran out before a schedule was found that fits; allow more");
}

// When the best schedule so far becomes the answer: at the end of the time budget, or early enough
// before the deadline for the response to reach the caller. That margin is a twentieth of the time
// that the caller allows, at least 50 ms, but never more than a quarter of it.
Clock::time_point DueFor(const Waiter& waiter) {
  Clock::time_point due = Clock::time_point::max();
  const double budget = waiter.request().options.time_budget_seconds;
  if (budget > 0) due = After(waiter.arrived, budget);
  if (waiter.caller.deadline == Clock::time_point::max()) return due;
  const double left = SecondsBetween(waiter.arrived, waiter.caller.deadline);
  const double margin = std::min(left / 4, std::max(0.05, left / 20));
  return std::min(due, After(waiter.arrived, left - margin));
}

// Both instances of a solve; null where memory runs out. Shared, since the queue copies its work.
std::shared_ptr<const RequestInstances> MakeInstances(const KeyedRequest& keyed) try {
  return std::make_shared<const RequestInstances>(keyed.request, keyed.rounded);
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Whether a schedule that was simulated for one request was thereby simulated for the other.
bool SameChain(const SolveRequest& a, const SolveRequest& b) {
  return &a == &b || (a.platform == b.platform && a.chain == b.chain);
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

}  // namespace

// Joins the solve of an equal request, or starts one. `solves_` is searched and changed under one
// lock, so that equal requests that arrive together start one solve. A solve that has ended and is
// not forgotten yet refuses the waiter and is replaced. Watch() and Start() are called without the
// lock: both may call listeners, and Start() may call Forget(), which takes it.
void SolveCoordinator::Join(const WaiterPtr& waiter) {
  if (!waiter->request().options.use_cache) return SolveAlone(waiter);
  SolvePtr solve;
  {
    MutexLock lock(mutex_);
    SolvePtr& shared = solves_[waiter->keys().rounded];
    waiter->source = Origin::Source::kCoalesced;
    if (shared == nullptr || !shared->Join(waiter)) {
      waiter->source = Origin::Source::kSolved;
      shared = std::make_shared<SharedSolve>(*waiter);
      shared->Join(waiter);
    }
    solve = shared;
  }
  Watch(solve, waiter);
  if (waiter->source == Origin::Source::kSolved) return Start(solve);
  // The solve starts at the turn of whichever of its callers comes first.
  if (const uint64_t ticket = solve->ticket()) {
    resources_.solves.Share(ticket, waiter->caller.client);
  }
}

// Starts a solve that no other request joins.
void SolveCoordinator::SolveAlone(const WaiterPtr& waiter) {
  waiter->source = Origin::Source::kSolved;
  const auto solve = std::make_shared<SharedSolve>(*waiter);
  solve->Join(waiter);
  Watch(solve, waiter);
  Start(solve);
}

// Removes the waiter when its caller leaves or its time is up. Timer and callback hold the solve
// weakly and name the waiter by its id: after the waiter's end they find nothing. The waiter's lock
// orders the timer and End(): a waiter that has ended gets no timer, and End() cancels the others'.
void SolveCoordinator::Watch(const SolvePtr& solve, const WaiterPtr& waiter) {
  const uint64_t id = waiter->id;
  const std::weak_ptr<SharedSolve> watched = solve;
  if (const Clock::time_point due = DueFor(*waiter); due != Clock::time_point::max()) {
    MutexLock lock(waiter->mutex);
    if (!waiter->ended) {
      waiter->timer = resources_.timers.At(due, [this, watched, id] {
        if (const SolvePtr late = watched.lock()) TimeIsUp(late, id);
      });
    }
  }
  if (!waiter->caller.stop.stop_possible()) return;
  // Called at once, on this thread, where the caller has left already.
  waiter->on_stop.emplace(waiter->caller.stop, [this, watched, id] {
    const SolvePtr left = watched.lock();
    if (left == nullptr) return;
    if (const WaiterPtr gone = left->Leave(id)) {
      End(gone, absl::CancelledError("the caller no longer waits for the answer"));
    }
  });
}

void SolveCoordinator::TimeIsUp(const SolvePtr& solve, uint64_t id) {
  AnswerPtr best;
  const WaiterPtr waiter = solve->LeaveWithBest(id, &best);
  if (waiter == nullptr) return;
  // On a quick thread: the schedule may have to be simulated on the waiter's own chain, and the
  // thread of the timers is needed for other deadlines.
  const auto end = [this, solve, waiter, best] { EndWithBest(solve, waiter, best, NoneInTime()); };
  if (!resources_.quick.Add({.run = end}).ok()) end();
}

// Looks the request up in the cache tier, on a quick thread, and enqueues the solve on a miss. A
// hit is put in memory before the solve is forgotten, so that an equal request that comes after
// that is a hit in memory.
void SolveCoordinator::Start(const SolvePtr& solve) {
  {
    MutexLock lock(mutex_);
    in_flight_.insert(solve);
  }
  const auto look_up = [this, solve] {
    if (solve->stop_token().stop_requested()) return Forget(solve);
    CachedAnswerPtr cached;
    if (solve->request().options.use_cache) {
      cached = resources_.cache.FindInTier(solve->request(), solve->keys());
    }
    if (cached == nullptr) return Enqueue(solve);
    resources_.cache.PutInMemory(cached);
    Forget(solve);
    EndAll(solve, cached, Origin::Source::kDiskCache);
  };
  const absl::StatusOr<uint64_t> added =
      resources_.quick.Add({.run = look_up, .client = solve->client()});
  if (added.ok()) return;
  Forget(solve);
  EndAll(solve, added.status());
}

// Declares the memory of the solve to the queue, which starts it when that much is free. The
// instances are made here, because the memory depends on them, and travel with the work.
void SolveCoordinator::Enqueue(const SolvePtr& solve) {
  absl::StatusOr<uint64_t> added = TooLittleFreeMemory();
  if (const auto instances = MakeInstances(solve->keyed())) {
    const SolveRequest& request = solve->request();
    const int64_t bytes = resources_.BytesFor(request, *instances);
    // Told before it is queued: it may run, and end, before Add() returns.
    solve->Queued(resources_.solves.stats().waiting);
    added = resources_.solves.Add(
        {.run = [this, solve, instances] { Run(solve, *instances); },
         .client = solve->client(),
         .bytes = bytes,
         .most_of_client = solve->limits().solves,
         .is_short = EngineResources::IsShort(request.chain, request.platform, bytes),
         .stop = solve->stop_token()});
  }
  if (!added.ok()) {
    Forget(solve);
    return EndAll(solve, added.status());
  }
  for (const std::string& client : solve->SetTicket(*added)) {
    resources_.solves.Share(*added, client);
  }
}

// What the solver may use, and whom it reports progress to. `place` must outlive the context.
SolveContext SolveCoordinator::ContextOf(const SolvePtr& solve, RunningSolves::Place& place,
                                         std::stop_token stop) {
  constexpr double kStep = 0.01;  // smaller progress is not reported
  SolveContext context = resources_.ContextFor(std::move(stop));
  context.progress = [solve, &place, reported = 0.0](double fraction) mutable {
    place.Progressed(fraction);
    if (fraction < reported + kStep) return;
    reported = fraction;
    solve->Progressed(fraction);
  };
  return context;
}

// Solves and simulates, on a solver thread; then caches the answer, forgets the solve and ends its
// waiters, in this order: a request that comes after Forget() finds the answer in memory. A solve
// that the server stops ends its waiters with the best schedule so far, which is not cached.
void SolveCoordinator::Run(const SolvePtr& solve, const RequestInstances& instances) {
  if (solve->stop_token().stop_requested()) return Forget(solve);
  const EitherStop stop(solve->stop_token(), resources_.stop_all.get_token());
  const TimeLimit limit(resources_.max_solve_seconds, stop.token(), &resources_.timers);
  const SolveRequest& request = solve->request();
  std::optional<RunningSolves::Place> place(std::in_place, resources_.running,
                                            SolverName(request.solver), request.chain.length());
  solve->Started();
  absl::StatusOr<Answer> answer =
      AnswerRequest(request, instances, ContextOf(solve, *place, limit.token()),
                    [this, &solve](const Answer& better) {
                      const auto best = std::make_shared<const Answer>(better);
                      for (const WaiterPtr& late : solve->Improved(best)) {
                        EndWithBest(solve, late, best, NoneInTime());
                      }
                    });
  place.reset();  // metrics must not list a solve whose callers have their answer
  if (answer.ok()) {
    const auto cached = std::make_shared<const CachedAnswer>(
        CachedAnswer{*std::move(answer), solve->keys(), solve->client(), /*is_explained=*/true});
    Cache(cached);
    Forget(solve);
    return EndAll(solve, cached, Origin::Source::kSolved);
  }
  Forget(solve);
  const AnswerPtr best = solve->best();
  if (!absl::IsCancelled(answer.status())) return EndAll(solve, answer.status());
  const absl::Status stopped =
      limit.is_over() ? limit.Exceeded() : Stopped(resources_.stop_all.get_token());
  if (best == nullptr) return EndAll(solve, stopped);
  for (const WaiterPtr& waiter : solve->End()) EndWithBest(solve, waiter, best, stopped);
}

void SolveCoordinator::Cache(const CachedAnswerPtr& answer) {
  resources_.cache.PutInMemory(answer);
  if (!resources_.cache.has_tier()) return;
  // Callers do not wait for the tier below.
  const absl::StatusOr<uint64_t> added =
      resources_.quick.Add({.run = [this, answer] { resources_.cache.PutInTier(answer); }});
  if (!added.ok()) resources_.observer.StoreFailed(added.status());
}

// From here on equal requests start a new solve. The entry may be that of a later solve: Join()
// replaces one that has ended, and a solve that was never shared has none.
void SolveCoordinator::Forget(const SolvePtr& solve) {
  MutexLock lock(mutex_);
  in_flight_.erase(solve);
  const auto shared = solves_.find(solve->keys().rounded);
  if (shared != solves_.end() && shared->second == solve) solves_.erase(shared);
}

// Requires: the caller has removed the waiter from its solve, which only one thread can.
void SolveCoordinator::End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result) {
  Timers::Id timer;
  {
    MutexLock lock(waiter->mutex);
    waiter->ended = true;
    timer = waiter->timer;
  }
  resources_.timers.Cancel(timer);
  waiter->listener->Done(std::move(result));
  pending_.Finish();
}

void SolveCoordinator::EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached,
                              Origin::Source source) {
  const std::vector<WaiterPtr> waiters = solve->End();
  // One answer of a solve counts as SOLVED, the others as COALESCED: the first caller's, or, where
  // it has left, that of the first who is still there.
  const bool first_is_here = std::any_of(
      waiters.begin(), waiters.end(),
      [](const WaiterPtr& waiter) { return waiter->source == Origin::Source::kSolved; });
  for (const WaiterPtr& waiter : waiters) {
    AnswerPtr answer = SameChain(waiter->request(), solve->request())
                           ? AnswerPtr(cached, &cached->answer)
                           : AnswerFromCached(waiter->request(), waiter->keys(), cached);
    if (answer == nullptr) {
      // The request rounds to the same instance, yet the schedule does not fit its exact chain. The
      // new waiter takes over the request's count in pending_.
      SolveAlone(std::make_shared<Waiter>(waiter->keyed, waiter->caller, waiter->listener,
                                          waiter->arrived));
      continue;
    }
    const bool first =
        waiter->source == Origin::Source::kSolved || (!first_is_here && waiter == waiters.front());
    const bool shares = source == Origin::Source::kSolved && !first;
    End(waiter, SolveResult{std::move(answer),
                            OriginFor(*solve, *waiter, shares ? waiter->source : source)});
  }
}

void SolveCoordinator::EndAll(const SolvePtr& solve, const absl::Status& status) {
  for (const WaiterPtr& waiter : solve->End()) End(waiter, status);
}

// Ends with `otherwise` where the best schedule so far does not fit the waiter's own chain.
void SolveCoordinator::EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter,
                                   const AnswerPtr& best, const absl::Status& otherwise) {
  AnswerPtr answer = best;
  if (!SameChain(waiter->request(), solve->request())) {
    answer = AnswerFromBest(waiter->request(), waiter->keys(), *best, solve->keys());
  }
  if (answer == nullptr) return End(waiter, otherwise);
  End(waiter, SolveResult{std::move(answer), OriginFor(*solve, *waiter, waiter->source)});
}

std::vector<SolveInFlight> SolveCoordinator::List() const {
  std::vector<SolvePtr> in_flight;
  {
    MutexLock lock(mutex_);
    in_flight.assign(in_flight_.begin(), in_flight_.end());
  }
  const Clock::time_point now = Clock::now();
  std::vector<SolveInFlight> list;
  list.reserve(in_flight.size());
  for (const SolvePtr& solve : in_flight) list.push_back(solve->Describe(now));
  std::sort(list.begin(), list.end(), [](const SolveInFlight& a, const SolveInFlight& b) {
    return std::pair(a.running_seconds, a.waiting_seconds) >
           std::pair(b.running_seconds, b.waiting_seconds);
  });
  return list;
}

SolveCoordinator::Cancelled SolveCoordinator::Cancel(const Fingerprint& fingerprint) {
  std::vector<SolvePtr> found;
  {
    MutexLock lock(mutex_);
    for (const SolvePtr& solve : in_flight_) {
      if (solve->keys().rounded == fingerprint) found.push_back(solve);
    }
  }
  Cancelled cancelled;
  for (const SolvePtr& solve : found) {
    const std::vector<WaiterPtr> waiters = solve->Abort();
    if (waiters.empty()) continue;  // it has just ended
    ++cancelled.solves;
    cancelled.callers += static_cast<int64_t>(waiters.size());
    for (const WaiterPtr& waiter : waiters) {
      End(waiter, absl::AbortedError("an operator of the server stopped this solve"));
    }
  }
  return cancelled;
}

size_t SolveCoordinator::size() const {
  MutexLock lock(mutex_);
  return solves_.size();
}

}  // namespace stowage

#include "server/engine/solve_coordinator.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/engine/plain_job.h"
#include "server/engine/reuse.h"
#include "server/engine/time_limit.h"
#include "server/events/rejection.h"
#include "solver/base/clock.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/stop.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status NoneInTime() {
  return absl::DeadlineExceededError(
      "time ran out before a schedule was found that fits; allow more");
}

absl::Status CallerLeft() {
  return absl::CancelledError("the caller no longer waits for the answer");
}

// Both instances of a solve; null where memory runs out. Shared, since the queue copies its work.
std::shared_ptr<const RequestInstances> MakeInstances(const KeyedRequest& keyed) {
  const auto make = [&] {
    return std::make_shared<const RequestInstances>(keyed.request, keyed.rounded);
  };
  return UnlessOutOfMemory(make, nullptr);
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

// Joins the solve of an equal request, or starts one. The maps are searched and changed under one
// lock, so that equal requests that arrive together start one solve. Begin() is called without the
// lock: it may call listeners, and Forget(), which takes it.
void SolveCoordinator::Join(const WaiterPtr& waiter) {
  // Freed, after the lock is released, where another waiter of the solve has the same request.
  const KeyedRequestPtr own = waiter->keyed;
  SolvePtr solve;
  if (!own->request.options.use_cache) {
    solve = std::make_shared<SharedSolve>(*waiter);  // which no other request joins
    solve->Join(waiter);
  } else {
    MutexLock lock(mutex_);
    const auto exact = exact_solves_.find(own->keys.exact);
    solve = exact != exact_solves_.end() && exact->second->Join(waiter)
                ? exact->second
                : JoinUnder(own->keys.rounded, solves_, waiter);
  }
  Begin(solve, waiter);
}

// A solve that has ended and is not forgotten yet refuses the waiter and is replaced.
SolveCoordinator::SolvePtr SolveCoordinator::JoinUnder(const Fingerprint& key, SolveMap& solves,
                                                       const WaiterPtr& waiter) {
  SolvePtr& shared = solves[key];
  if (shared == nullptr || !shared->Join(waiter)) {
    shared = std::make_shared<SharedSolve>(*waiter);
    shared->Join(waiter);
  }
  return shared;
}

// Watches a waiter that has joined; the first one starts the solve. The others' clients share what
// is queued of it, so that it starts at the turn of whichever comes first.
void SolveCoordinator::Begin(const SolvePtr& solve, const WaiterPtr& waiter) {
  Watch(solve, waiter);
  if (waiter->source != Origin::Source::kSolved) {
    return UpdateLine(solve, waiter->caller.client);
  }
  {
    MutexLock lock(mutex_);
    in_flight_.insert(solve);
  }
  LookUp(solve);
}

// Removes the waiter when its caller leaves or its time is up. Timer and callback hold the solve
// weakly and name the waiter by its id: after the waiter's end they find nothing. The waiter's lock
// orders the timer and End(): a waiter that has ended gets no timer, and End() cancels the others'.
void SolveCoordinator::Watch(const SolvePtr& solve, const WaiterPtr& waiter) {
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
void SolveCoordinator::TimeIsUp(const SolvePtr& solve, uint64_t id) {
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
void SolveCoordinator::FindFirst(const SolvePtr& solve) {
  if (!solve->ClaimFirst()) return;
  const auto find = [this, solve] {
    std::optional<Answer> first = FirstAnswer(solve->request(), solve->stop_token());
    if (first.has_value()) Improved(solve, *std::move(first));
  };
  (void)resources_.quick.Add({.run = find, .client = solve->owner().client});
}

// Whoever waited for a first schedule leaves with this one.
void SolveCoordinator::Improved(const SolvePtr& solve, Answer better) {
  const auto best = std::make_shared<const Answer>(std::move(better));
  for (const WaiterPtr& late : solve->Improved(best)) {
    UpdateLine(solve, late->caller.client);
    EndWithBest(solve, late, best, NoneInTime());
  }
}

// Looks the request up in the cache tiers, on a thread of theirs, and enqueues the solve on a miss.
// An optimal hit is put in memory before the solve is forgotten, so that an equal request that
// comes after that is a hit in memory.
void SolveCoordinator::LookUp(const SolvePtr& solve) {
  solve->steps().Begin(kFindInTiersSpan);
  const auto look_up = [this, solve] {
    if (solve->stop_token().stop_requested()) return Forget(solve);
    if (!EndFromTiers(solve)) Enqueue(solve);
  };
  AddInTurn(solve, resources_.tier_calls, &SharedSolve::SetLookUpTicket,
            [&](const Caller& /*owner*/) { return Work{.run = look_up}; });
}

// False: no tier has the answer. Blocks on the tiers.
bool SolveCoordinator::EndFromTiers(const SolvePtr& solve) {
  if (!solve->request().options.use_cache) return false;
  solve->steps().Begin(kFindInTiersSpan);
  const TierHit hit =
      FindInTiers(resources_.cache, solve->request(), solve->keys(), solve->owner().client);
  if (hit.cached == nullptr) return false;
  if (hit.cached->answer.outcome == Outcome::kOptimal) {
    resources_.cache.PutInMemory(hit.cached);
  } else {
    bounds_.Add(solve->shared_keyed(), hit.cached);
  }
  Forget(solve);
  EndAll(solve, hit.cached, hit.source);
  return true;
}

// Declares the memory of the solve to the queue, which starts it when that much is free. The
// instances are made here, because the memory depends on them, and travel with the work.
void SolveCoordinator::Enqueue(const SolvePtr& solve) {
  const auto instances = MakeInstances(solve->keyed());
  if (instances == nullptr) {
    Forget(solve);
    return EndAll(solve, TooLittleFreeMemory());
  }
  const SolveRequest& request = solve->request();
  const int64_t bytes = resources_.BytesFor(request, *instances);
  // Told before it is queued: it may run, and end, before Add() returns.
  solve->Queued(resources_.solves.stats().waiting);
  AddInTurn(solve, resources_.solves, &SharedSolve::SetTicket, [&](const Caller& owner) {
    return Work{.run = [this, solve, instances] { Run(solve, *instances); },
                .bytes = bytes,
                .max_of_client = owner.limits.solves,
                .is_short = EngineResources::IsShort(request, bytes),
                .is_readmitted = solve->awaits_other_since().has_value(),
                .stop = solve->stop_token()};
  });
}

// Adds work of a solve in its owner's name, and to the lines of all its clients. Where the queue
// refuses the owner, only its waiters end, and the next owner's name is tried: nobody pays for the
// limits of another. Without waiters the solve is forgotten.
void SolveCoordinator::AddInTurn(const SolvePtr& solve, WorkQueue& queue, TicketSetter set_ticket,
                                 absl::FunctionRef<Work(const Caller& owner)> make) {
  while (!solve->stop_token().stop_requested()) {
    const Caller owner = solve->owner();
    Work work = make(owner);
    work.client = owner.client;
    work.drop = [this, solve](const std::vector<std::string>& clients, const absl::Status& status) {
      Drop(solve, clients, status);
    };
    const absl::StatusOr<uint64_t> ticket = queue.Add(std::move(work));
    if (ticket.ok()) {
      for (const std::string& client : (*solve.*set_ticket)(*ticket)) UpdateLine(solve, client);
      return UpdateLine(solve, owner.client);  // it may have left before the ticket was set
    }
    if (!WorkQueue::RefusesClient(ticket.status())) {
      Forget(solve);
      return EndAll(solve, ticket.status());
    }
    for (const WaiterPtr& refused : solve->LeaveAllOf(owner.client)) End(refused, ticket.status());
  }
  Forget(solve);
}

// The work of a solve has lost its place in a queue because those clients had too much in it. Their
// waiters end; for whoever has joined since then the solve begins again.
void SolveCoordinator::Drop(const SolvePtr& solve, const std::vector<std::string>& clients,
                            const absl::Status& status) {
  for (const std::string& client : clients) {
    for (const WaiterPtr& refused : solve->LeaveAllOf(client)) End(refused, status);
  }
  LookUp(solve);
}

// A client has what is queued of a solve in its line as long as it has a waiter. Waiters come and
// go on several threads: whoever acts last has seen the last change.
void SolveCoordinator::UpdateLine(const SolvePtr& solve, const std::string& client) {
  bool waits = false;
  do {
    waits = solve->Has(client);
    const auto update = waits ? &WorkQueue::Share : &WorkQueue::Unshare;
    const SharedSolve::Tickets tickets = solve->tickets();
    (resources_.tier_calls.*update)(tickets.look_up, client);
    (resources_.solves.*update)(tickets.solve, client);
  } while (waits != solve->Has(client));
}

// What the solver may use, and whom it reports progress to. `place` must outlive the context.
SolveContext SolveCoordinator::ContextOf(const SolvePtr& solve, RunningSolves::Place& place,
                                         std::stop_token stop, const HeldLeasePtr& lease) {
  constexpr double kStep = 0.01;  // smaller progress is not reported
  SolveContext context = resources_.ContextFor(std::move(stop));
  context.progress = [solve, &place, lease, reported = 0.0](double fraction) mutable {
    place.Progressed(fraction);
    if (lease != nullptr) lease->Progressed(fraction);
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
  HeldLeasePtr lease;
  if (IsLeftToOther(solve, &lease)) return;
  const EitherStop stop(solve->stop_token(), resources_.stop_all.get_token());
  const TimeLimit limit(resources_.max_solve_seconds, stop.token(), &resources_.timers);
  const SolveRequest& request = solve->request();
  std::optional<RunningSolves::Place> place(std::in_place, resources_.running,
                                            SolverName(request.solver), request.chain.length());
  solve->Started();
  absl::StatusOr<Answer> answer =
      AnswerRequest(request, instances, ContextOf(solve, *place, limit.token(), lease),
                    [this, &solve](const Answer& better) { Improved(solve, better); });
  place.reset();  // metrics must not list a solve whose callers have their answer
  solve->steps().End();
  if (answer.ok()) {
    const auto cached = std::make_shared<const CachedAnswer>(
        CachedAnswer{.answer = *std::move(answer),
                     .keys = solve->keys(),
                     .owner = solve->owner().client,
                     .is_explained = true,
                     .lease_token = lease != nullptr ? lease->token() : 0,
                     .has_more_than_schedule = request.options.report_rounding_loss});
    if (lease != nullptr && AnswerCache::BelongsInTiers(*cached)) lease->LeaveToAnswer();
    Cache(cached);
    if (lease != nullptr) lease->End(/*is_done=*/true);
    Forget(solve);
    return EndAll(solve, cached, Origin::Source::kSolved);
  }
  // What was stopped here may still be solved elsewhere.
  if (lease != nullptr) lease->End(!absl::IsCancelled(answer.status()) || limit.is_over());
  Forget(solve);
  const AnswerPtr best = solve->best();
  if (!absl::IsCancelled(answer.status())) return EndAll(solve, answer.status());
  const absl::Status stopped =
      limit.is_over() ? limit.Exceeded() : Stopped(resources_.stop_all.get_token());
  if (best == nullptr) return EndAll(solve, stopped);
  for (const WaiterPtr& waiter : solve->End()) EndWithBest(solve, waiter, best, stopped);
}

// For a solve whose turn has come. False: it is to be solved here, under `lease`, or without one
// where leases do not work, or where the answer of another does not do. True: another server solves
// it, and this one waits; or has solved it, and the solve has ended.
bool SolveCoordinator::IsLeftToOther(const SolvePtr& solve, HeldLeasePtr* lease) {
  using State = SolveLease::State;
  const SolveOptions& options = solve->request().options;
  if (resources_.leases == nullptr || !options.use_cache || options.report_rounding_loss) {
    return false;
  }
  const Clock::time_point now = Clock::now();
  if (!MayAwaitOther(solve, now)) return false;
  const Fingerprint& key = solve->keys().rounded;
  const absl::StatusOr<SolveLease> asked = resources_.leases->Take(key);
  if (!asked.ok()) return false;
  if (asked->state == State::kHeld) {
    AwaitOther(solve, now);
    return true;
  }
  if (asked->state == State::kDone) return EndFromTiers(solve);
  *lease = HeldLease::Hold({*resources_.leases, resources_.timers, resources_.tier_calls}, key,
                           asked->token);
  return false;
}

// Looks again after an eighth of the time that it has waited, and at a third of the lease at most.
// `seen`: when the other server was last known to hold it.
void SolveCoordinator::AwaitOther(const SolvePtr& solve, Clock::time_point seen) {
  constexpr Clock::duration kMin = std::chrono::milliseconds(2);
  const Clock::time_point now = Clock::now();
  solve->AwaitOther(now);
  const Clock::duration waited = now - solve->awaits_other_since().value_or(now);
  const Clock::duration most = resources_.leases->duration() / 3;
  const Clock::duration pause = std::min(most, std::max(kMin, waited / 8));
  resources_.timers.At(now + pause, [this, solve, seen] { LookAgain(solve, seen); });
}

// On a thread of the tiers. A lease that is not held has left an answer, or its holder has died or
// given up, and then this server may have its turn.
void SolveCoordinator::LookAgain(const SolvePtr& solve, Clock::time_point seen) {
  const auto look = [this, solve, seen] {
    if (solve->stop_token().stop_requested()) return Forget(solve);
    const absl::StatusOr<SolveLease> lease = resources_.leases->Look(solve->keys().rounded);
    const bool is_held = lease.ok() && lease->state == SolveLease::State::kHeld;
    if (is_held) solve->Progressed(lease->fraction);
    const Clock::time_point last = is_held ? Clock::now() : seen;
    if ((is_held || !lease.ok()) && MayAwaitOther(solve, last)) return AwaitOther(solve, last);
    if (is_held || !EndFromTiers(solve)) Enqueue(solve);
  };
  AddInTurn(solve, resources_.tier_calls, &SharedSolve::SetLookUpTicket,
            [&](const Caller& /*owner*/) { return Work{.run = look, .is_readmitted = true}; });
}

// For no longer than a solve may take here, and no longer than a lease where its store does not
// answer: a caller never waits for another server in vain. Not while this server stops.
bool SolveCoordinator::MayAwaitOther(const SolvePtr& solve, Clock::time_point seen) {
  const Clock::time_point now = Clock::now();
  return !resources_.stop_all.stop_requested() && now < seen + resources_.leases->duration() &&
         now < After(solve->awaits_other_since().value_or(now), resources_.max_solve_seconds);
}

void SolveCoordinator::Cache(const CachedAnswerPtr& answer) {
  resources_.cache.PutInMemory(answer);
  if (!resources_.cache.has_tiers() || !AnswerCache::BelongsInTiers(*answer)) return;
  const auto failed = [this](const absl::Status& status) {
    resources_.observer.StoreFailed(status);
  };
  // Callers do not wait for the tiers below.
  const absl::StatusOr<uint64_t> added =
      resources_.tier_calls.Add({.run = [this, answer] { resources_.cache.PutInTiers(answer); },
                                 .drop = [failed](const std::vector<std::string>&,
                                                  const absl::Status& status) { failed(status); }});
  if (!added.ok()) failed(added.status());
}

// From here on equal requests start a new solve. The entry may be that of a later solve: Join()
// replaces one that has ended, and a solve that was never shared has none.
void SolveCoordinator::Forget(const SolvePtr& solve) {
  MutexLock lock(mutex_);
  in_flight_.erase(solve);
  const auto forget = [&solve](const Fingerprint& key, SolveMap& solves) {
    const auto shared = solves.find(key);
    if (shared != solves.end() && shared->second == solve) solves.erase(shared);
  };
  forget(solve->keys().rounded, solves_);
  forget(solve->keys().exact, exact_solves_);
}

// Requires: the caller has removed the waiter from its solve, which only one thread can.
void SolveCoordinator::End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result) {
  Unwatch(*waiter);
  RecordSteps(*waiter);
  waiter->listener->Done(std::move(result));
  pending_.Finish();
}

// The timer of a waiter that has left its solve is of no use any more.
void SolveCoordinator::Unwatch(Waiter& waiter) {
  Timers::Id timer;
  {
    MutexLock lock(waiter.mutex);
    waiter.ended = true;
    timer = waiter.timer;
  }
  resources_.timers.Cancel(timer);
}

// The waiters whose exact request was solved get the answer at once. For the others it has to be
// simulated, in the turns of each one's client. Until then they are watched.
void SolveCoordinator::EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached,
                              Origin::Source source) {
  for (const WaiterPtr& waiter : solve->EndExact()) {
    EndSolved(solve, waiter, AnswerPtr(cached, &cached->answer), source);
  }
  for (const std::string& client : solve->AwaitAnswer(cached, source)) {
    SimulateInTurn(solve, client);
  }
}

// All that is to be simulated of a client is one work in the queue, which simulates for one exact
// request and then queues itself again: a job with noisy times has thousands of them, and others
// have their turns in between. No limit refuses it, because these requests were admitted before.
void SolveCoordinator::SimulateInTurn(const SolvePtr& solve, const std::string& client) {
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

void SolveCoordinator::SimulateNext(const SolvePtr& solve, const std::string& client) {
  const std::optional<ToSimulate> next = solve->NextToSimulate(client);
  if (!next.has_value()) return;
  next->best != nullptr ? EndLate(solve, *next) : EndSimulated(solve, *next);
  if (solve->HasToSimulate(client)) SimulateInTurn(solve, client);
}

// Those whose chain the schedule does not fit, though it rounds to the same instance, share a solve
// of their own.
void SolveCoordinator::EndSimulated(const SolvePtr& solve, const ToSimulate& simulation) {
  const Waiter& first = *simulation.waiters.front();
  const AnswerPtr answer = AnswerFromCached(first.request(), first.keys(), simulation.answer);
  if (answer == nullptr) return SolveAgain(simulation.waiters);
  for (const WaiterPtr& waiter : simulation.waiters) {
    EndSolved(solve, waiter, answer, simulation.source);
  }
}

// Nothing is simulated where all have left.
void SolveCoordinator::EndLate(const SolvePtr& solve, const ToSimulate& simulation) {
  const auto has_left = [](const WaiterPtr& waiter) {
    return waiter->caller.stop.stop_requested();
  };
  const Waiter& first = *simulation.waiters.front();
  AnswerPtr answer;
  if (!std::ranges::all_of(simulation.waiters, has_left)) {
    answer = AnswerFromBest(first.request(), first.keys(), *simulation.best, solve->keys());
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

// One answer of a solve counts as SOLVED, the others as COALESCED: the first caller's, or, where it
// has left, that of the first who is still there.
void SolveCoordinator::EndSolved(const SolvePtr& solve, const WaiterPtr& waiter,
                                 const AnswerPtr& answer, Origin::Source source) {
  if (source == Origin::Source::kSolved && !solve->ClaimSolved()) {
    source = Origin::Source::kCoalesced;
  }
  End(waiter, SolveResult{answer, OriginFor(*solve, *waiter, source)});
}

// Takes over the requests' count in pending_. All join before the solve begins: a short one would
// end before the last had come.
void SolveCoordinator::SolveAgain(const std::vector<WaiterPtr>& waiters) {
  std::vector<std::pair<SolvePtr, WaiterPtr>> joined;
  joined.reserve(waiters.size());
  for (const WaiterPtr& waiter : waiters) {
    Unwatch(*waiter);
    RecordSteps(*waiter);
    joined.emplace_back(nullptr,
                        std::make_shared<Waiter>(waiter->keyed, waiter->caller, waiter->listener,
                                                 waiter->arrived, waiter->due));
  }
  {
    MutexLock lock(mutex_);
    for (auto& [solve, again] : joined) {
      solve = JoinUnder(again->keys().exact, exact_solves_, again);
    }
  }
  for (const auto& [solve, again] : joined) Begin(solve, again);
}

void SolveCoordinator::EndAll(const SolvePtr& solve, const absl::Status& status) {
  for (const WaiterPtr& waiter : solve->End()) End(waiter, status);
}

// Where another chain was solved the schedule is simulated on the waiter's own first, in the turn
// of its client; it ends with `otherwise` where the schedule does not fit there. Requires: the
// solve has a best schedule.
void SolveCoordinator::EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter,
                                   const AnswerPtr& best, const absl::Status& otherwise) {
  if (solve->SolvesExactly(*waiter)) {
    return End(waiter, SolveResult{best, OriginFor(*solve, *waiter, waiter->source)});
  }
  waiter->otherwise = otherwise;
  if (solve->AwaitBest(waiter)) SimulateInTurn(solve, waiter->caller.client);
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
  return solves_.size() + exact_solves_.size();
}

}  // namespace stowage

#include "server/engine/solves/solve_course.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/engine/limits/time_limit.h"
#include "server/engine/queue/plain_job.h"
#include "server/engine/solves/reuse.h"
#include "server/events/rejection.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/time/clock.h"
#include "solver/base/time/stop.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

using Clock = Timers::Clock;

// Both instances of a solve; null where memory runs out. Shared, since the queue copies its work.
std::shared_ptr<const RequestInstances> MakeInstances(const KeyedRequest& keyed) {
  const auto make = [&] {
    return std::make_shared<const RequestInstances>(keyed.request, keyed.rounded);
  };
  return UnlessOutOfMemory(make, nullptr);
}

}  // namespace

// Looks the request up in the cache tiers, on a thread of theirs, and enqueues the solve on a miss.
// An optimal hit is put in memory before the solve is forgotten, so that an equal request that
// comes after that is a hit in memory.
void SolveCourse::LookUp(const SolvePtr& solve) {
  solve->LookUp();
  const auto look_up = [this, solve] {
    if (solve->stop_token().stop_requested()) return in_flight_.Forget(solve);
    if (!EndFromTiers(solve)) Enqueue(solve);
  };
  AddInTurn(solve, resources_.tier_calls, &SharedSolve::SetLookUpTicket,
            [&](const Caller& /*owner*/) { return Work{.run = look_up}; });
}

// False: no tier has the answer. Blocks on the tiers.
bool SolveCourse::EndFromTiers(const SolvePtr& solve) {
  if (!solve->request().options.use_cache) return false;
  solve->LookUp();
  const TierHit hit = FindInTiers(resources_.cache, solve->keyed(), solve->owner().client);
  if (hit.cached == nullptr) return false;
  if (hit.cached->answer.outcome == Outcome::kOptimal) {
    resources_.cache.PutInMemory(hit.cached);
  } else {
    bounds_.Add(solve->shared_keyed(), hit.cached);
  }
  in_flight_.Forget(solve);
  delivery_.EndAll(solve, hit.cached, hit.source);
  return true;
}

// Declares the memory of the solve to the queue, which starts it when that much is free. The
// instances are made here, because the memory depends on them, and travel with the work.
void SolveCourse::Enqueue(const SolvePtr& solve) {
  const auto instances = MakeInstances(solve->keyed());
  if (instances == nullptr) {
    in_flight_.Forget(solve);
    return delivery_.EndAll(solve, TooLittleFreeMemory());
  }
  const SolveRequest& request = solve->request();
  const int64_t bytes = resources_.BytesFor(request, *instances);
  // Told before it is queued: it may run, and end, before Add() returns.
  solve->Queued(resources_.solves.stats().waiting);
  AddInTurn(solve, resources_.solves, &SharedSolve::SetTicket, [&](const Caller& owner) {
    return Work{.run = [this, solve, instances] { Run(solve, *instances); },
                .bytes = bytes,
                .max_of_client = owner.limits.solves,
                .is_short = EngineResources::IsShort(request, instances->units(), bytes),
                .is_readmitted = solve->awaits_other_since().has_value(),
                .stop = solve->stop_token()};
  });
}

// On a solver thread. A solve that the server stops ends its waiters with the best schedule so far,
// which is not cached.
void SolveCourse::Run(const SolvePtr& solve, const RequestInstances& instances) {
  if (solve->stop_token().stop_requested()) return in_flight_.Forget(solve);
  HeldLeasePtr lease;
  if (IsLeftToOther(solve, &lease)) return;
  const EitherStop stop(solve->stop_token(), resources_.stop_all.get_token());
  const TimeLimit limit(resources_.max_solve_seconds, stop.token(), &resources_.timers);
  absl::StatusOr<Answer> answer = Solve(solve, instances, limit.token(), lease);
  if (answer.ok()) return Solved(solve, *std::move(answer), lease);
  // What was stopped here may still be solved elsewhere.
  if (lease != nullptr) lease->End(!absl::IsCancelled(answer.status()) || limit.is_over());
  in_flight_.Forget(solve);
  if (!absl::IsCancelled(answer.status())) return delivery_.EndAll(solve, answer.status());
  delivery_.EndAllWithBest(
      solve, limit.is_over() ? limit.Exceeded() : Stopped(resources_.stop_all.get_token()));
}

// Solves and simulates. The metrics no longer list the solve when its callers have their answer.
absl::StatusOr<Answer> SolveCourse::Solve(const SolvePtr& solve, const RequestInstances& instances,
                                          std::stop_token stop, const HeldLeasePtr& lease) {
  const SolveRequest& request = solve->request();
  RunningSolves::Place place(resources_.running, SolverName(request.solver),
                             request.chain.length());
  solve->Started();
  absl::StatusOr<Answer> answer =
      AnswerRequest(request, instances, ContextOf(solve, place, std::move(stop), lease),
                    [this, &solve](const Answer& better) { delivery_.Improved(solve, better); });
  solve->Solved();
  return answer;
}

// What the solver may use, and whom it reports progress to. `place` must outlive the context.
SolveContext SolveCourse::ContextOf(const SolvePtr& solve, RunningSolves::Place& place,
                                    std::stop_token stop, const HeldLeasePtr& lease) {
  constexpr double kStep = 0.01;  // smaller progress is not reported
  SolveContext context = resources_.ContextFor(std::move(stop));
  context.phases = &solve->phases();
  context.progress = [solve, &place, lease, reported = 0.0](double fraction) mutable {
    place.Progressed(fraction);
    if (lease != nullptr) lease->Progressed(fraction);
    if (fraction < reported + kStep) return;
    reported = fraction;
    solve->Progressed(fraction);
  };
  return context;
}

// Caches the answer, forgets the solve and ends its waiters, in this order: a request that comes
// after Forget() finds the answer in memory.
void SolveCourse::Solved(const SolvePtr& solve, Answer answer, const HeldLeasePtr& lease) {
  const auto cached = std::make_shared<const CachedAnswer>(
      CachedAnswer{.answer = std::move(answer),
                   .keys = solve->keys(),
                   .owner = solve->owner().client,
                   .is_explained = true,
                   .lease_token = lease != nullptr ? lease->token() : 0,
                   .has_more_than_schedule = solve->request().options.report_rounding_loss});
  if (lease != nullptr && AnswerCache::BelongsInTiers(*cached)) lease->LeaveToAnswer();
  Cache(cached);
  if (lease != nullptr) lease->End(/*is_done=*/true);
  in_flight_.Forget(solve);
  delivery_.EndAll(solve, cached, Origin::Source::kSolved);
}

void SolveCourse::Cache(const CachedAnswerPtr& answer) {
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

// For a solve whose turn has come. False: it is to be solved here, under `lease`, or without one
// where leases do not work, or where the answer of another does not do. True: another server solves
// it, and this one waits; or has solved it, and the solve has ended.
bool SolveCourse::IsLeftToOther(const SolvePtr& solve, HeldLeasePtr* lease) {
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
void SolveCourse::AwaitOther(const SolvePtr& solve, Clock::time_point seen) {
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
void SolveCourse::LookAgain(const SolvePtr& solve, Clock::time_point seen) {
  const auto look = [this, solve, seen] {
    if (solve->stop_token().stop_requested()) return in_flight_.Forget(solve);
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
bool SolveCourse::MayAwaitOther(const SolvePtr& solve, Clock::time_point seen) {
  const Clock::time_point now = Clock::now();
  return !resources_.stop_all.stop_requested() && now < seen + resources_.leases->duration() &&
         now < After(solve->awaits_other_since().value_or(now), resources_.max_solve_seconds);
}

// Adds work of a solve in its owner's name, and to the lines of all its clients. Where the queue
// refuses the owner, only its waiters end, and the next owner's name is tried: nobody pays for the
// limits of another. Without waiters the solve is forgotten.
void SolveCourse::AddInTurn(const SolvePtr& solve, WorkQueue& queue, TicketSetter set_ticket,
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
      for (const std::string& client : (*solve.*set_ticket)(*ticket)) {
        delivery_.UpdateLine(solve, client);
      }
      // It may have left before the ticket was set.
      return delivery_.UpdateLine(solve, owner.client);
    }
    if (!WorkQueue::RefusesClient(ticket.status())) {
      in_flight_.Forget(solve);
      return delivery_.EndAll(solve, ticket.status());
    }
    for (const WaiterPtr& refused : solve->LeaveAllOf(owner.client)) {
      delivery_.End(refused, ticket.status());
    }
  }
  in_flight_.Forget(solve);
}

// The work of a solve has lost its place in a queue because those clients had too much in it. Their
// waiters end; for whoever has joined since then the solve begins again.
void SolveCourse::Drop(const SolvePtr& solve, const std::vector<std::string>& clients,
                       const absl::Status& status) {
  for (const std::string& client : clients) {
    for (const WaiterPtr& refused : solve->LeaveAllOf(client)) delivery_.End(refused, status);
  }
  LookUp(solve);
}

}  // namespace stowage

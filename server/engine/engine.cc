#include "server/engine/engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/plain_job.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/catalog.h"
#include "solver/solve/find_frontier.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// Solver threads yield the cores to cached answers.
constexpr int kSolveNiceness = 10;
constexpr int kQuickThreads = 2;
constexpr size_t kQuickQueue = 4096;  // each entry may hold a message of the largest size
constexpr size_t kQuickOfAClient = 1024;

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

Clock::time_point After(Clock::time_point begin, double seconds) {
  constexpr double kLong = 1e8;  // more would overflow the clock
  return begin + std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(std::min(seconds, kLong)));
}

absl::Status Draining() {
  return absl::UnavailableError("the server is draining; ask another server");
}

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

// Rounds the request and makes its keys. Null where memory runs out, as it may for chains of the
// largest size.
KeyedRequestPtr MakeKeyed(SolveRequest request) try {
  auto rounded = std::make_shared<const Instance>(Instance::Rounded(request));
  const CacheKeys keys = CacheKeysOf(request, *rounded);
  return std::make_shared<const KeyedRequest>(
      KeyedRequest{std::move(request), std::move(rounded), keys});
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Both instances of a solve; null where memory runs out. Shared, since the queue copies its work.
std::shared_ptr<const RequestInstances> MakeInstances(const KeyedRequest& keyed) try {
  return std::make_shared<const RequestInstances>(keyed.request, keyed.rounded);
} catch (const std::bad_alloc&) {
  return nullptr;
}

// The catalog's name, "auto" for an empty one.
std::string NameOf(const std::string& solver) {
  return std::string(FindSolver(solver)->description.name);
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

Engine::Engine(const EngineOptions& options, AnswerCache* cache, Observer* observer)
    : options_(options),
      cache_(*cache),
      observer_(*observer),
      quick_({.threads = kQuickThreads,
              .most_waiting = kQuickQueue,
              .most_of_a_client = kQuickOfAClient}),
      queue_({.threads = options.threads,
              .most_waiting = options.queue_length,
              .most_of_a_client = options.client_limit,
              .most_bytes = options.all_solves_bytes,
              .niceness = kSolveNiceness}) {
  // A thread inherits the niceness of the thread that creates it, so the helpers are created by a
  // thread that has taken the niceness of the solver threads.
  std::thread([this] {
    setpriority(PRIO_PROCESS, 0, kSolveNiceness);
    helpers_.emplace(options_.threads - 1);
  }).join();
}

Engine::~Engine() { Drain(Clock::now()); }

absl::Status Engine::Begin() {
  MutexLock lock(mutex_);
  if (draining_) return Draining();
  ++pending_;
  return absl::OkStatus();
}

void Engine::Finish() {
  MutexLock lock(mutex_);
  if (--pending_ == 0) idle_.SignalAll();
}

// Counts the request as pending, makes its keys and looks it up in memory; on a miss it joins a
// solve. Every path after Begin() calls Done() once and then Finish() once; for a request that
// joins a solve both calls are in End().
void Engine::Solve(SolveRequest request, Caller caller, std::shared_ptr<SolveListener> listener) {
  if (const absl::Status begun = Begin(); !begun.ok()) return listener->Done(begun);
  const Clock::time_point arrived = Clock::now();
  const KeyedRequestPtr keyed = MakeKeyed(std::move(request));
  if (keyed == nullptr) {
    listener->Done(TooLittleFreeMemory());
    return Finish();
  }
  if (keyed->request.options.use_cache) {
    if (AnswerPtr cached = cache_.FindInMemory(keyed->request, keyed->keys)) {
      listener->Done(SolveResult{.answer = std::move(cached),
                                 .origin = {.source = Origin::Source::kMemoryCache,
                                            .fingerprint = ToHex(keyed->keys.rounded)}});
      return Finish();
    }
  }
  Join(std::make_shared<Waiter>(keyed, std::move(caller), std::move(listener), arrived));
}

// Joins the solve of an equal request, or starts one. `solves_` is searched and changed under one
// lock, so that equal requests that arrive together start one solve. A solve that has ended and is
// not forgotten yet refuses the waiter and is replaced. Watch() and Start() are called without the
// lock: both may end the waiter, and Finish() takes it.
void Engine::Join(const WaiterPtr& waiter) {
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
  if (waiter->source == Origin::Source::kSolved) Start(solve);
}

// Starts a solve that no other request joins.
void Engine::SolveAlone(const WaiterPtr& waiter) {
  waiter->source = Origin::Source::kSolved;
  const auto solve = std::make_shared<SharedSolve>(*waiter);
  solve->Join(waiter);
  Watch(solve, waiter);
  Start(solve);
}

// Removes the waiter when its caller leaves or its time is up. Timer and callback hold the solve
// weakly and name the waiter by its id: after the waiter's end they find nothing. The waiter's lock
// orders the timer and End(): a waiter that has ended gets no timer, and End() cancels the others'.
void Engine::Watch(const SolvePtr& solve, const WaiterPtr& waiter) {
  const uint64_t id = waiter->id;
  const std::weak_ptr<SharedSolve> watched = solve;
  if (const Clock::time_point due = DueFor(*waiter); due != Clock::time_point::max()) {
    MutexLock lock(waiter->mutex);
    if (!waiter->ended) {
      waiter->timer = timers_.At(due, [this, watched, id] {
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

void Engine::TimeIsUp(const SolvePtr& solve, uint64_t id) {
  AnswerPtr best;
  const WaiterPtr waiter = solve->LeaveWithBest(id, &best);
  if (waiter == nullptr) return;
  // On a quick thread: the schedule may have to be simulated on the waiter's own chain, and the
  // thread of the timers is needed for other deadlines.
  const auto end = [this, solve, waiter, best] { EndWithBest(solve, waiter, best, NoneInTime()); };
  if (!quick_.Add({.run = end}).ok()) end();
}

// Looks the request up in the cache tier, on a quick thread, and enqueues the solve on a miss. A
// hit is put in memory before the solve is forgotten, so that an equal request that comes after
// that is a hit in memory.
void Engine::Start(const SolvePtr& solve) {
  const auto look_up = [this, solve] {
    if (solve->stop_token().stop_requested()) return Forget(solve);
    CachedAnswerPtr cached;
    if (solve->request().options.use_cache) {
      cached = cache_.FindInTier(solve->request(), solve->keys());
    }
    if (cached == nullptr) return Enqueue(solve);
    cache_.PutInMemory(cached);
    Forget(solve);
    EndAll(solve, cached, Origin::Source::kDiskCache);
  };
  const absl::StatusOr<size_t> added = quick_.Add({.run = look_up, .client = solve->client()});
  if (added.ok()) return;
  Forget(solve);
  EndAll(solve, added.status());
}

// The most memory that the solve of a request may take.
int64_t Engine::BytesFor(const SolveRequest& request, const RequestInstances& instances) const {
  // The rounding loss takes a solve on a finer grid, with as much memory as there is for one.
  if (request.options.report_rounding_loss) return options_.solve_bytes;
  const std::unique_ptr<Solver> solver = FindSolver(request.solver)->make();
  return std::max(solver->WorkingBytesWithin(instances.rounded(), options_.solve_bytes),
                  solver->WorkingBytesWithin(instances.exact_sizes(), options_.solve_bytes));
}

// Declares the memory of the solve to the queue, which starts it when that much is free. The
// instances are made here, because the memory depends on them, and travel with the work.
void Engine::Enqueue(const SolvePtr& solve) {
  absl::StatusOr<size_t> before = TooLittleFreeMemory();
  if (const auto instances = MakeInstances(solve->keyed())) {
    before = queue_.Add({.run = [this, solve, instances] { Run(solve, *instances); },
                         .client = solve->client(),
                         .bytes = BytesFor(solve->request(), *instances),
                         .stop = solve->stop_token()});
  }
  if (before.ok()) return solve->Queued(*before);
  Forget(solve);
  EndAll(solve, before.status());
}

// What the solver may use, and whom it reports progress to. `place` must outlive the context.
SolveContext Engine::ContextOf(const SolvePtr& solve, RunningSolves::Place& place,
                               std::stop_token stop) {
  constexpr double kStep = 0.01;  // smaller progress is not reported
  SolveContext context;
  context.stop = std::move(stop);
  context.working_bytes = options_.solve_bytes;
  context.threads = &*helpers_;
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
void Engine::Run(const SolvePtr& solve, const RequestInstances& instances) {
  if (solve->stop_token().stop_requested()) return Forget(solve);
  const EitherStop stop(solve->stop_token(), stop_all_.get_token());
  const SolveRequest& request = solve->request();
  std::optional<RunningSolves::Place> place(std::in_place, running_, NameOf(request.solver),
                                            request.chain.length());
  solve->Started();
  absl::StatusOr<Answer> answer =
      AnswerRequest(request, instances, ContextOf(solve, *place, stop.token()),
                    [this, &solve](const Answer& better) {
                      const auto best = std::make_shared<const Answer>(better);
                      for (const WaiterPtr& late : solve->Improved(best)) {
                        EndWithBest(solve, late, best, NoneInTime());
                      }
                    });
  place.reset();  // metrics must not list a solve whose callers have their answer
  if (answer.ok()) {
    const auto cached = std::make_shared<const CachedAnswer>(
        CachedAnswer{*std::move(answer), solve->keys(), /*is_explained=*/true});
    Cache(cached);
    Forget(solve);
    return EndAll(solve, cached, Origin::Source::kSolved);
  }
  Forget(solve);
  const AnswerPtr best = solve->best();
  if (!absl::IsCancelled(answer.status())) return EndAll(solve, answer.status());
  const absl::Status stopped = Stopped(stop_all_.get_token());
  if (best == nullptr) return EndAll(solve, stopped);
  for (const WaiterPtr& waiter : solve->End()) EndWithBest(solve, waiter, best, stopped);
}

void Engine::Cache(const CachedAnswerPtr& answer) {
  cache_.PutInMemory(answer);
  if (!cache_.has_tier()) return;
  // Callers do not wait for the tier below.
  const absl::StatusOr<size_t> added =
      quick_.Add({.run = [this, answer] { cache_.PutInTier(answer); }});
  if (!added.ok()) observer_.StoreFailed(added.status());
}

// From here on equal requests start a new solve. The entry may be that of a later solve: Join()
// replaces one that has ended, and a solve that was never shared has none.
void Engine::Forget(const SolvePtr& solve) {
  MutexLock lock(mutex_);
  const auto shared = solves_.find(solve->keys().rounded);
  if (shared != solves_.end() && shared->second == solve) solves_.erase(shared);
}

// Requires: the caller has removed the waiter from its solve, which only one thread can.
void Engine::End(const WaiterPtr& waiter, absl::StatusOr<SolveResult> result) {
  Timers::Id timer;
  {
    MutexLock lock(waiter->mutex);
    waiter->ended = true;
    timer = waiter->timer;
  }
  timers_.Cancel(timer);
  waiter->listener->Done(std::move(result));
  Finish();
}

void Engine::EndAll(const SolvePtr& solve, const CachedAnswerPtr& cached, Origin::Source source) {
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

void Engine::EndAll(const SolvePtr& solve, const absl::Status& status) {
  for (const WaiterPtr& waiter : solve->End()) End(waiter, status);
}

// Ends with `otherwise` where the best schedule so far does not fit the waiter's own chain.
void Engine::EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                         const absl::Status& otherwise) {
  AnswerPtr answer = best;
  if (!SameChain(waiter->request(), solve->request())) {
    answer = AnswerFromBest(waiter->request(), waiter->keys(), *best, solve->keys());
  }
  if (answer == nullptr) return End(waiter, otherwise);
  End(waiter, SolveResult{std::move(answer), OriginFor(*solve, *waiter, waiter->source)});
}

// The most memory that a frontier may take: that of its largest solve. The platform's own budget
// plays no part. RESOURCE_EXHAUSTED where even the instances do not fit.
absl::StatusOr<int64_t> Engine::BytesForFrontier(const FrontierRequest& request) const try {
  SolveRequest largest = {request.chain, request.platform, request.solver, request.options};
  largest.platform.memory_bytes =
      request.budgets.empty() ? StoreAllPeakBytes(request.chain)
                              : *std::max_element(request.budgets.begin(), request.budgets.end());
  return std::min(options_.solve_bytes, BytesFor(largest, RequestInstances(largest)));
} catch (const std::bad_alloc&) {
  return TooLittleFreeMemory();
}

void Engine::FindFrontier(FrontierRequest request, Caller caller, FrontierDone done) {
  if (const absl::Status begun = Begin(); !begun.ok()) return done(begun);
  const absl::StatusOr<int64_t> bytes = BytesForFrontier(request);
  if (!bytes.ok()) {
    done(bytes.status());
    return Finish();
  }
  const std::stop_token caller_stop = caller.stop;
  using Job = PlainJob<FrontierResult>;
  const std::shared_ptr<Job> job(new Job{
      [this, request = std::move(request), queued = Clock::now()](
          std::stop_token stop, Clock::time_point started) -> absl::StatusOr<FrontierResult> {
        SolveContext context;
        context.stop = std::move(stop);
        context.working_bytes = options_.solve_bytes;
        context.threads = &*helpers_;
        RunningSolves::Place place(running_, NameOf(request.solver), request.chain.length());
        context.progress = [&place](double fraction) { place.Progressed(fraction); };
        absl::StatusOr<Frontier> frontier = stowage::FindFrontier(request, context);
        if (!frontier.ok()) return frontier.status();
        return FrontierResult{*std::move(frontier),
                              {.queue_seconds = SecondsBetween(queued, started),
                               .solve_seconds = SecondsBetween(started, Clock::now())}};
      },
      {caller.stop, stop_all_.get_token()},
      stop_all_.get_token(),
      std::move(done)});
  const auto run = [this, job] {
    job->Run();
    Finish();
  };
  const absl::StatusOr<size_t> added =
      queue_.Add({.run = run, .client = caller.client, .bytes = *bytes, .stop = caller_stop});
  if (added.ok()) return;
  job->done(added.status());
  Finish();
}

// A simulation is short next to a solve, so it does not wait in the queue of the solves.
void Engine::Simulate(SimulateRequest request, Caller caller, SimulateDone done) {
  if (const absl::Status begun = Begin(); !begun.ok()) return done(begun);
  using Job = PlainJob<ExplainedSimulation>;
  const std::shared_ptr<Job> job(
      new Job{[request = std::move(request)](const std::stop_token&, Clock::time_point) {
                return SimulateAndExplain(request.chain, request.platform, request.schedule);
              },
              {caller.stop, stop_all_.get_token()},
              stop_all_.get_token(),
              std::move(done)});
  const auto run = [this, job] {
    job->Run();
    Finish();
  };
  const absl::StatusOr<size_t> added =
      quick_.Add({.run = run, .client = caller.client, .stop = caller.stop});
  if (added.ok()) return;
  job->done(added.status());
  Finish();
}

// Waits for the requests until `deadline`, then stops the solves that still run, waits for their
// callers' answers, and last for the queues: work may outlive the request that it was for.
void Engine::Drain(Clock::time_point deadline) {
  {
    MutexLock lock(mutex_);
    draining_ = true;
    while (pending_ > 0 && idle_.WaitUntil(mutex_, deadline)) {
    }
  }
  stop_all_.request_stop();
  {
    MutexLock lock(mutex_);
    while (pending_ > 0) idle_.Wait(mutex_);
  }
  // Answers may still have to be written to the cache tier.
  queue_.WaitUntilIdle(Clock::time_point::max());
  quick_.WaitUntilIdle(Clock::time_point::max());
}

bool Engine::draining() const {
  MutexLock lock(mutex_);
  return draining_;
}

EngineStats Engine::stats() const {
  EngineStats stats;
  stats.solves = queue_.stats();
  stats.running = running_.List();
  stats.threads = options_.threads;
  stats.queue_length = options_.queue_length;
  MutexLock lock(mutex_);
  stats.requests = solves_.size();
  return stats;
}

}  // namespace stowage

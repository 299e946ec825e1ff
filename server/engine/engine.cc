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

// Solves leave the cores to answers that are known whenever these need them.
constexpr int kSolveNiceness = 10;
constexpr int kQuickThreads = 2;
constexpr size_t kQuickQueue = 4096;  // each may hold a message of the largest size
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
  return absl::UnavailableError("the server is draining; ask another one");
}

// When the best schedule so far has to do: early enough for it to reach the caller.
Clock::time_point DueFor(const Waiter& waiter) {
  Clock::time_point due = Clock::time_point::max();
  const double budget = waiter.request.options.time_budget_seconds;
  if (budget > 0) due = After(waiter.arrived, budget);
  if (waiter.caller.deadline == Clock::time_point::max()) return due;
  const double left = SecondsBetween(waiter.arrived, waiter.caller.deadline);
  const double margin = std::min(left / 4, std::max(0.05, left / 20));
  return std::min(due, After(waiter.arrived, left - margin));
}

// Null where memory runs out, as it may for chains of the largest size.
WaiterPtr NewWaiter(SolveRequest request, Caller caller,
                    const std::shared_ptr<SolveListener>& listener) try {
  const QuestionKeys keys = KeysOf(request);
  return std::make_shared<Waiter>(std::move(request), keys, std::move(caller), listener,
                                  Clock::now());
} catch (const std::bad_alloc&) {
  return nullptr;
}

// As the catalog has it, "auto" for none.
std::string NameOf(const std::string& solver) {
  return std::string(FindSolver(solver)->description.name);
}

absl::Status NoneInTime() {
  return absl::DeadlineExceededError(
      "time ran out before a schedule was found that fits; allow more");
}

Solved TimedFor(const SharedSolve& solve, const Waiter& waiter,
                std::shared_ptr<const Answer> answer, Source source) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = solve.started().value_or(now);
  return {std::move(answer), SecondsBetween(waiter.arrived, started),
          SecondsBetween(std::max(waiter.arrived, started), now), source, waiter.keys.rounded};
}

}  // namespace

Engine::Engine(const EngineOptions& options, CacheTier* store, Observer* observer)
    : options_(options),
      observer_(*observer),
      known_(options.cache_bytes, store, *observer),
      quick_({.threads = kQuickThreads,
              .most_waiting = kQuickQueue,
              .most_of_a_client = kQuickOfAClient}),
      queue_({.threads = options.threads,
              .most_waiting = options.queue_length,
              .most_of_a_client = options.client_limit,
              .most_bytes = options.all_solves_bytes,
              .niceness = kSolveNiceness}) {
  // Threads are as nice as the one that makes them.
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

void Engine::Solve(SolveRequest request, Caller caller, std::shared_ptr<SolveListener> listener) {
  if (const absl::Status begun = Begin(); !begun.ok()) return listener->Done(begun);
  const WaiterPtr waiter = NewWaiter(std::move(request), std::move(caller), listener);
  if (waiter == nullptr) {
    listener->Done(
        absl::ResourceExhaustedError("the server has too little free memory; try again"));
    return Finish();
  }
  if (waiter->request.options.use_cache) {
    if (AnswerPtr known = known_.FromMemory(waiter->request, waiter->keys)) {
      return End(waiter, Solved{.answer = std::move(known),
                                .source = Source::kMemoryCache,
                                .fingerprint = waiter->keys.rounded});
    }
  }
  Join(waiter);
}

// Joins the solve of the same question, or begins one.
void Engine::Join(const WaiterPtr& waiter) {
  SolvePtr solve;
  bool is_new = false;
  if (waiter->request.options.use_cache) {
    MutexLock lock(mutex_);
    SolvePtr& shared = solves_[waiter->keys.rounded];
    waiter->source = Source::kCoalesced;
    if (shared == nullptr || !shared->Join(waiter)) {
      waiter->source = Source::kSolved;
      shared = std::make_shared<SharedSolve>(*waiter);
      shared->Join(waiter);
      is_new = true;
    }
    solve = shared;
  } else {
    solve = std::make_shared<SharedSolve>(*waiter);
    solve->Join(waiter);
    is_new = true;
  }
  Watch(solve, waiter);
  if (is_new) Start(solve);
}

// Lets the waiter go when its caller leaves or its time is up.
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
  waiter->on_stop.emplace(waiter->caller.stop, [this, watched, id] {
    const SolvePtr left = watched.lock();
    if (left == nullptr) return;
    if (const WaiterPtr gone = left->Leave(id)) {
      End(gone, absl::CancelledError("nobody waits for the answer any more"));
    }
  });
}

void Engine::TimeIsUp(const SolvePtr& solve, uint64_t id) {
  AnswerPtr best;
  const WaiterPtr waiter = solve->LeaveWithBest(id, &best);
  if (waiter == nullptr) return;
  // Not on the thread of the timers, which others wait for.
  const auto end = [this, solve, waiter, best] { EndWithBest(solve, waiter, best, NoneInTime()); };
  if (!quick_.Add({.run = end}).ok()) end();
}

void Engine::Start(const SolvePtr& solve) {
  const absl::StatusOr<size_t> added =
      quick_.Add({.run =
                      [this, solve] {
                        if (solve->stop_token().stop_requested()) return Forget(solve);
                        const bool asks = solve->request().options.use_cache;
                        const KnownAnswerPtr known =
                            asks ? known_.FromStore(solve->request(), solve->keys()) : nullptr;
                        if (known == nullptr) return Enqueue(solve);
                        Keep(known, /*in_store=*/true);
                        Forget(solve);
                        EndAll(solve, known, Source::kDiskCache);
                      },
                  .client = solve->client()});
  if (added.ok()) return;
  Forget(solve);
  EndAll(solve, added.status());
}

int64_t Engine::BytesFor(const SolveRequest& request) const {
  // A finer grid is solved as well, with as much as it may take.
  if (request.options.report_rounding_loss) return options_.solve_bytes;
  const std::unique_ptr<Solver> solver = FindSolver(request.solver)->make();
  int64_t bytes = 0;
  for (const Instance& instance : {Instance::Rounded(request), Instance::ExactSizes(request)}) {
    bytes = std::max(bytes, solver->WorkingBytesWithin(instance, options_.solve_bytes));
  }
  return bytes;
}

void Engine::Enqueue(const SolvePtr& solve) {
  const absl::StatusOr<size_t> before = queue_.Add({.run = [this, solve] { Run(solve); },
                                                    .client = solve->client(),
                                                    .bytes = BytesFor(solve->request()),
                                                    .stop = solve->stop_token()});
  if (before.ok()) return solve->Queued(*before);
  Forget(solve);
  EndAll(solve, before.status());
}

SolveContext Engine::ContextOf(const SolvePtr& solve, RunningSolves::Place& place,
                               std::stop_token stop) {
  constexpr double kStep = 0.01;  // of progress that is worth telling
  SolveContext context;
  context.stop = std::move(stop);
  context.working_bytes = options_.solve_bytes;
  context.threads = &*helpers_;
  context.progress = [solve, &place, told = 0.0](double fraction) mutable {
    place.Progressed(fraction);
    if (fraction < told + kStep) return;
    told = fraction;
    solve->Progressed(fraction);
  };
  return context;
}

void Engine::Run(const SolvePtr& solve) {
  if (solve->stop_token().stop_requested()) return Forget(solve);
  const EitherStop stop(solve->stop_token(), stop_all_.get_token());
  const SolveRequest& request = solve->request();
  std::optional<RunningSolves::Place> place(std::in_place, running_, NameOf(request.solver),
                                            request.chain.length());
  solve->Started();
  absl::StatusOr<Answer> answer = AnswerRequest(
      request, ContextOf(solve, *place, stop.token()), [this, &solve](const Answer& better) {
        const auto best = std::make_shared<const Answer>(better);
        for (const WaiterPtr& late : solve->Improved(best)) {
          EndWithBest(solve, late, best, NoneInTime());
        }
      });
  place.reset();
  if (answer.ok()) {
    const auto known = std::make_shared<const KnownAnswer>(
        KnownAnswer{*std::move(answer), solve->keys(), /*explained=*/true});
    Keep(known, /*in_store=*/false);
    Forget(solve);
    return EndAll(solve, known, Source::kSolved);
  }
  Forget(solve);
  const AnswerPtr best = solve->best();
  if (!absl::IsCancelled(answer.status())) return EndAll(solve, answer.status());
  const absl::Status stopped = Stopped(stop_all_.get_token());
  if (best == nullptr) return EndAll(solve, stopped);
  for (const WaiterPtr& waiter : solve->End()) EndWithBest(solve, waiter, best, stopped);
}

void Engine::Keep(const KnownAnswerPtr& known, bool in_store) {
  known_.KeepInMemory(known);
  if (!known_.has_store() || in_store) return;
  const absl::StatusOr<size_t> added =
      quick_.Add({.run = [this, known] { known_.KeepInStore(known); }});
  if (!added.ok()) observer_.StoreFailed(added.status());
}

// From here on whoever asks the same question begins anew.
void Engine::Forget(const SolvePtr& solve) {
  MutexLock lock(mutex_);
  const auto shared = solves_.find(solve->keys().rounded);
  if (shared != solves_.end() && shared->second == solve) solves_.erase(shared);
}

void Engine::End(const WaiterPtr& waiter, absl::StatusOr<Solved> result) {
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

void Engine::EndAll(const SolvePtr& solve, const KnownAnswerPtr& known, Source source) {
  const std::vector<WaiterPtr> waiters = solve->End();
  // Who asked first may have left; a solve counts once all the same.
  const bool first_is_here =
      std::any_of(waiters.begin(), waiters.end(),
                  [](const WaiterPtr& waiter) { return waiter->source == Source::kSolved; });
  for (const WaiterPtr& waiter : waiters) {
    AnswerPtr answer = AnswerWith(waiter->request, waiter->keys, known);
    if (answer == nullptr) {
      // It rounds to the same question, and yet needs an answer of its own.
      SolveRequest request = waiter->request;
      request.options.use_cache = false;
      Join(std::make_shared<Waiter>(std::move(request), waiter->keys, waiter->caller,
                                    waiter->listener, waiter->arrived));
      continue;
    }
    const bool first =
        waiter->source == Source::kSolved || (!first_is_here && waiter == waiters.front());
    const bool shares = source == Source::kSolved && !first;
    End(waiter, TimedFor(*solve, *waiter, std::move(answer), shares ? waiter->source : source));
  }
}

void Engine::EndAll(const SolvePtr& solve, const absl::Status& status) {
  for (const WaiterPtr& waiter : solve->End()) End(waiter, status);
}

// `otherwise` where the best so far does not fit the waiter's own question.
void Engine::EndWithBest(const SolvePtr& solve, const WaiterPtr& waiter, const AnswerPtr& best,
                         const absl::Status& otherwise) {
  AnswerPtr answer = best;
  if (!(solve->keys().exact == waiter->keys.exact)) {
    answer = AnswerWithBest(waiter->request, waiter->keys, *best, solve->keys());
  }
  if (answer == nullptr) return End(waiter, otherwise);
  End(waiter, TimedFor(*solve, *waiter, std::move(answer), waiter->source));
}

void Engine::FindFrontier(FrontierRequest request, Caller caller, FrontierDone done) {
  if (const absl::Status begun = Begin(); !begun.ok()) return done(begun);
  // As much as its largest solve; the platform's own budget plays no part.
  SolveRequest largest = {request.chain, request.platform, request.solver, request.options};
  largest.platform.memory_bytes =
      request.budgets.empty() ? StoreAllPeakBytes(request.chain)
                              : *std::max_element(request.budgets.begin(), request.budgets.end());
  const int64_t bytes = std::min(options_.solve_bytes, BytesFor(largest));
  const std::stop_token caller_stop = caller.stop;
  using Job = PlainJob<TimedFrontier>;
  const std::shared_ptr<Job> job(new Job{
      [this, request = std::move(request), queued = Clock::now()](
          std::stop_token stop, Clock::time_point started) -> absl::StatusOr<TimedFrontier> {
        SolveContext context;
        context.stop = std::move(stop);
        context.working_bytes = options_.solve_bytes;
        context.threads = &*helpers_;
        RunningSolves::Place place(running_, NameOf(request.solver), request.chain.length());
        context.progress = [&place](double fraction) { place.Progressed(fraction); };
        absl::StatusOr<Frontier> frontier = stowage::FindFrontier(request, context);
        if (!frontier.ok()) return frontier.status();
        return TimedFrontier{*std::move(frontier), SecondsBetween(queued, started),
                             SecondsBetween(started, Clock::now())};
      },
      {caller.stop, stop_all_.get_token()},
      stop_all_.get_token(),
      std::move(done)});
  const auto run = [this, job] {
    job->Run();
    Finish();
  };
  const absl::StatusOr<size_t> added =
      queue_.Add({.run = run, .client = caller.client, .bytes = bytes, .stop = caller_stop});
  if (added.ok()) return;
  job->done(added.status());
  Finish();
}

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
  // What answers leave behind: the store's entries.
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
  stats.memory = known_.memory_stats();
  MutexLock lock(mutex_);
  stats.questions = solves_.size();
  return stats;
}

}  // namespace stowage

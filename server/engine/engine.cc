#include "server/engine/engine.h"

#include <algorithm>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "proto/service/results.h"
#include "server/engine/limits/time_limit.h"
#include "server/engine/queue/plain_job.h"
#include "server/engine/solves/reuse.h"
#include "server/events/rejection.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/time/clock.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/find_frontier.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// Rounds the request and makes its keys. Null where memory runs out, as it may for chains of the
// largest size.
KeyedRequestPtr MakeKeyed(SolveRequest request, RequestBytes::Hold held) {
  return UnlessOutOfMemory(
      [&]() -> KeyedRequestPtr {
        auto rounded = std::make_shared<const Instance>(Instance::Rounded(request));
        const CacheKeys keys = CacheKeysOf(request, *rounded);
        return std::make_shared<const KeyedRequest>(
            KeyedRequest{std::move(request), std::move(rounded), keys, std::move(held)});
      },
      nullptr);
}

int64_t LargestBudget(const FrontierRequest& request) {
  return request.budgets.empty()
             ? StoreAllPeakBytes(request.chain)
             : *std::max_element(request.budgets.begin(), request.budgets.end());
}

}  // namespace

Engine::Engine(const EngineOptions& options, AnswerCache* cache, Observer* observer,
               SolveLeases* leases)
    : solves_(resources_, pending_), resources_(options, cache, observer, leases) {}

Engine::~Engine() { Drain(Clock::now()); }

// Counts the request as pending, makes its keys and looks it up in memory; on a miss it joins a
// solve. Every path after Begin() calls Done() once and then Finish() once; for a request that
// joins a solve both calls are in SolveCoordinator::End().
KeyedRequestPtr Engine::Solve(SolveRequest request, Caller caller,
                              std::shared_ptr<SolveListener> listener) {
  if (const absl::Status begun = pending_.Begin(caller.is_part); !begun.ok()) {
    listener->Done(begun);
    return nullptr;
  }
  const Clock::time_point arrived = Clock::now();
  const auto refuse = [&](const absl::Status& status) {
    listener->Done(status);
    pending_.Finish();
    return nullptr;
  };
  absl::StatusOr<RequestBytes::Hold> held =
      resources_.request_bytes.Take(BytesOf(request), caller.client);
  if (!held.ok()) return refuse(held.status());
  KeyedRequestPtr keyed = MakeKeyed(std::move(request), *std::move(held));
  if (keyed == nullptr) return refuse(TooLittleFreeMemory());
  const Arrival arrival = {arrived, keyed->request.options.time_budget_seconds};
  return FindOrJoin(std::move(keyed), arrival, std::move(caller), std::move(listener));
}

void Engine::SolveEqual(KeyedRequestPtr keyed, double time_budget_seconds, Caller caller,
                        std::shared_ptr<SolveListener> listener) {
  const absl::Status begun = pending_.Begin(caller.is_part);
  if (!begun.ok()) return listener->Done(begun);
  FindOrJoin(std::move(keyed), {Clock::now(), time_budget_seconds}, std::move(caller),
             std::move(listener));
}

// For a request that has begun.
KeyedRequestPtr Engine::FindOrJoin(KeyedRequestPtr keyed, const Arrival& arrival, Caller caller,
                                   std::shared_ptr<SolveListener> listener) {
  AnswerPtr cached;
  if (keyed->request.options.use_cache) {
    cached = FindInMemory(resources_.cache, *keyed);
  }
  if (caller.trace != nullptr) caller.trace->RecordUntilNow(kFindAnswerSpan, arrival.at);
  if (cached != nullptr) {
    listener->Done(SolveResult{.answer = std::move(cached),
                               .origin = {.source = Origin::Source::kMemoryCache,
                                          .fingerprint = ToHex(keyed->keys.rounded)}});
    pending_.Finish();
    return nullptr;
  }
  const Clock::time_point due = DueFor(arrival.time_budget_seconds, caller, arrival.at);
  // Moved, so that the request is freed where the waiter shares an equal one.
  const auto waiter = std::make_shared<Waiter>(std::move(keyed), std::move(caller),
                                               std::move(listener), arrival.at, due);
  solves_.Join(waiter);
  return waiter->keyed;
}

// Work that finishes the request, whether it runs or is dropped.
template <typename Result>
Work Engine::WorkOf(const std::shared_ptr<PlainJob<Result>>& job, const Caller& caller) {
  return {.run =
              [this, job] {
                job->Run();
                pending_.Finish();
              },
          .client = caller.client,
          .stop = caller.stop,
          .drop =
              [this, job](const std::vector<std::string>&, const absl::Status& status) {
                job->done(status);
                pending_.Finish();
              }};
}

// The most memory that a frontier may take: that of its largest solve. The platform's own budget
// plays no part. RESOURCE_EXHAUSTED where even the instances do not fit.
absl::StatusOr<int64_t> Engine::BytesForFrontier(const FrontierRequest& request) const {
  return UnlessOutOfMemory(
      [&]() -> absl::StatusOr<int64_t> {
        SolveRequest largest = {request.chain, request.platform, request.solver, request.options};
        largest.platform.memory_bytes = LargestBudget(request);
        return std::min(resources_.options.solve_bytes,
                        resources_.BytesFor(largest, RequestInstances(largest)));
      },
      TooLittleFreeMemory);
}

FrontierCallPtr Engine::BeginFrontier(const FrontierRequest& request, const Caller& caller,
                                      FrontierDone done, std::string fingerprint) {
  auto call =
      std::make_shared<FrontierCall>(FrontierInFlight{.fingerprint = std::move(fingerprint),
                                                      .solver = SolverName(request.solver),
                                                      .stages = request.chain.length(),
                                                      .memory_bytes = LargestBudget(request),
                                                      .client = caller.client},
                                     caller.stop, std::move(done));
  frontiers_.Add(call);
  return call;
}

void Engine::FindFrontier(FrontierRequest request, Caller caller, FrontierDone done,
                          std::string fingerprint) {
  if (const absl::Status begun = pending_.Begin(); !begun.ok()) return done(begun);
  absl::StatusOr<RequestBytes::Hold> held =
      resources_.request_bytes.Take(BytesOf(request), caller.client);
  const absl::StatusOr<int64_t> bytes =
      held.ok() ? BytesForFrontier(request) : absl::StatusOr<int64_t>(held.status());
  if (!bytes.ok()) {
    done(bytes.status());
    return pending_.Finish();
  }
  const FrontierCallPtr call =
      BeginFrontier(request, caller, std::move(done), std::move(fingerprint));
  caller.stop = call->stop();
  using Job = PlainJob<FrontierResult>;
  const std::shared_ptr<Job> job(new Job{
      [this, call, request = std::move(request), queued = Clock::now()](
          std::stop_token stop, Clock::time_point started) -> absl::StatusOr<FrontierResult> {
        const TimeLimit limit(resources_.max_solve_seconds, std::move(stop), &resources_.timers);
        SolveContext context = resources_.ContextFor(limit.token());
        RunningSolves::Place place(resources_.running, SolverName(request.solver),
                                   request.chain.length());
        context.progress = [&place, &call](double fraction) {
          place.Progressed(fraction);
          call->Progressed(fraction);
        };
        call->Started();
        absl::StatusOr<Frontier> frontier = stowage::FindFrontier(request, context);
        if (absl::IsCancelled(frontier.status()) && limit.is_over()) return limit.Exceeded();
        if (!frontier.ok()) return frontier.status();
        return FrontierResult{*std::move(frontier),
                              {.queue_seconds = SecondsBetween(queued, started),
                               .solve_seconds = SecondsBetween(started, Clock::now())}};
      },
      {caller.stop, resources_.stop_all.get_token()},
      resources_.stop_all.get_token(),
      *std::move(held),
      [this, call](absl::StatusOr<FrontierResult> result) {
        frontiers_.Remove(call);
        call->End(std::move(result));
      }});
  Work work = WorkOf(job, caller);
  work.bytes = *bytes;
  work.max_of_client = caller.limits.solves;
  const absl::StatusOr<uint64_t> added = resources_.solves.Add(std::move(work));
  if (added.ok()) return;
  job->done(added.status());
  pending_.Finish();
}

// A short simulation does not wait in the queue of the solves; a long one is as one of them.
void Engine::Simulate(SimulateRequest request, Caller caller, SimulateDone done) {
  if (const absl::Status begun = pending_.Begin(); !begun.ok()) return done(begun);
  absl::StatusOr<RequestBytes::Hold> held =
      resources_.request_bytes.Take(BytesOf(request), caller.client);
  if (!held.ok()) {
    done(held.status());
    return pending_.Finish();
  }
  const int64_t steps =
      static_cast<int64_t>(request.schedule.operations.size()) + request.chain.length();
  using Job = PlainJob<ExplainedSimulation>;
  const std::shared_ptr<Job> job(new Job{
      [this, request = std::move(request)](
          std::stop_token stop, Clock::time_point) -> absl::StatusOr<ExplainedSimulation> {
        const TimeLimit limit(resources_.max_solve_seconds, std::move(stop), &resources_.timers);
        absl::StatusOr<ExplainedSimulation> result =
            SimulateAndExplain(request.chain, ChainUnits(request.chain), request.platform,
                               request.schedule, limit.token());
        if (absl::IsCancelled(result.status()) && limit.is_over()) {
          return limit.ExceededBySimulation();
        }
        return result;
      },
      {caller.stop, resources_.stop_all.get_token()},
      resources_.stop_all.get_token(),
      *std::move(held),
      std::move(done)});
  const absl::Status added =
      resources_.AddSimulations(/*count=*/1, steps, caller.limits, WorkOf(job, caller));
  if (added.ok()) return;
  job->done(added);
  pending_.Finish();
}

// Its simulations are one work: as long together as a solve.
void Engine::FindSetting(std::shared_ptr<const ExportRequest> request, double max_seconds,
                         Caller caller, SettingDone done) {
  const absl::Status begun = pending_.Begin(caller.is_part);
  if (!begun.ok()) return done(begun);
  const int64_t count = SettingsToTry(*request);
  const int64_t steps = 3 * int64_t{request->chain.length()};
  const int64_t bytes = BytesOf(request->chain);  // of the layers, a chain of their own
  using Job = PlainJob<TargetPlan>;
  const std::shared_ptr<Job> job(new Job{
      [this, request = std::move(request), max_seconds, deadline = caller.deadline](
          std::stop_token stop, Clock::time_point started) -> absl::StatusOr<TargetPlan> {
        const double seconds = std::min({max_seconds, double{resources_.max_solve_seconds},
                                         std::max(SecondsBetween(started, deadline), 0.0)});
        const TimedStop limit(seconds, std::move(stop), &resources_.timers);
        absl::StatusOr<TargetPlan> plan = UnlessOutOfMemory(
            [&] { return stowage::FindSetting(*request, limit.token()); }, TooLittleFreeMemory);
        if (plan.ok() && plan->time_ran_out && !limit.is_over()) return absl::CancelledError();
        return plan;
      },
      {caller.stop, resources_.stop_all.get_token()},
      resources_.stop_all.get_token(),
      /*held=*/{},
      std::move(done)});
  Work work = WorkOf(job, caller);
  work.bytes = bytes;
  const absl::Status added =
      resources_.AddSimulations(count, steps, caller.limits, std::move(work));
  if (added.ok()) return;
  job->done(added);
  pending_.Finish();
}

// Waits for the requests until `deadline`, then stops the solves that still run, waits for their
// callers' answers, and last for the queues: work may outlive the request that it was for.
void Engine::Drain(Clock::time_point deadline) {
  pending_.Close();
  pending_.WaitUntil(deadline);
  resources_.stop_all.request_stop();
  pending_.Wait();
  // Look-ups may still queue bounds to be raised, and answers may have to be written to the tiers.
  resources_.tier_calls.WaitUntilIdle(Clock::time_point::max());
  resources_.solves.WaitUntilIdle(Clock::time_point::max());
  resources_.quick.WaitUntilIdle(Clock::time_point::max());
  resources_.tier_calls.WaitUntilIdle(Clock::time_point::max());
}

bool Engine::draining() const { return pending_.closed(); }

EngineStats Engine::stats() const {
  return {.solves = resources_.solves.stats(),
          .running = resources_.running.List(),
          .requests = solves_.size(),
          .threads = resources_.options.threads,
          .queue_length = resources_.solves.max_waiting(),
          .max_request_bytes = resources_.request_bytes.max_bytes()};
}

}  // namespace stowage

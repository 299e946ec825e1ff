// The service without gRPC, threads included; runs under ThreadSanitizer.
#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::_;
using testing::HasSubstr;
constexpr std::chrono::seconds kLong{60};

// Counts failures of the cache tier.
class CountingObserver final : public Observer {
 public:
  void CallBegan(const std::string&) override {}
  void CallEnded(const CallRecord&) override {}
  void ExecutionReported(const ExecutionReport&, const CallRecord&) override {}
  void OperatorActed(const OperatorAction& /*action*/) override {}
  void StoreFailed(const absl::Status&) override { ++failures; }
  void CredentialsReplaced(const std::string&, const absl::Status&) override {}

  std::atomic<int> failures{0};
};

// Records the events of one request and waits for its end.
class RecordingListener final : public SolveListener {
 public:
  using Result = absl::StatusOr<SolveResult>;

  void Queued(size_t) override { ++queued; }
  void Running(double fraction) override { progress = fraction; }
  void Improved(const std::shared_ptr<const Answer>&) override { ++improvements; }
  void Done(Result result) override { promise_.set_value(std::move(result)); }

  // The result of Done(); an error where it is not called in time.
  Result Wait() {
    std::future<Result> result = promise_.get_future();
    if (result.wait_for(kLong) != std::future_status::ready) {
      return absl::InternalError("the engine did not call Done()");
    }
    return result.get();
  }

  std::atomic<int> queued{0};
  std::atomic<int> improvements{0};
  std::atomic<double> progress{-1};

 private:
  std::promise<Result> promise_;
};
using ListenerPtr = std::shared_ptr<RecordingListener>;

// A tier in memory that can be made to fail.
class FakeTier final : public CacheTier {
 public:
  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override {
    MutexLock lock(mutex_);
    ++reads_;
    if (broken_) return absl::UnavailableError("broken");
    const auto found = entries_.find(ToHex(key));
    return found != entries_.end() ? found->second : nullptr;
  }
  absl::Status Put(CachedAnswerPtr cached) override {
    MutexLock lock(mutex_);
    if (broken_) return absl::UnavailableError("broken");
    const std::string key = ToHex(KeyOf(*cached));
    entries_[key] = std::move(cached);
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(entries_.erase(ToHex(rounded)));
  }
  CacheStats stats() const override {
    MutexLock lock(mutex_);
    return {.entries = static_cast<int64_t>(entries_.size())};
  }
  void Break() {
    MutexLock lock(mutex_);
    broken_ = true;
  }
  int reads() const {
    MutexLock lock(mutex_);
    return reads_;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, CachedAnswerPtr> entries_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  int reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

class EngineTest : public testing::Test {
 protected:
  ListenerPtr Send(SolveRequest request, Caller caller = {}) {
    auto listener = std::make_shared<RecordingListener>();
    engine_.Solve(std::move(request), std::move(caller), listener);
    return listener;
  }
  // The answer, with where it came from.
  SolveResult Answered(SolveRequest request) {
    absl::StatusOr<SolveResult> result = Send(std::move(request))->Wait();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? *std::move(result) : SolveResult{};
  }
  void WaitUntilRunning(size_t solves) {
    while (engine_.stats().solves.running < solves) std::this_thread::yield();
  }

  // Takes minutes unless it is stopped.
  static SolveRequest Endless(int variant = 0) {
    Chain chain = EqualChain(600);
    for (Stage& stage : chain.stages) stage.saved_bytes = 1'000'000;
    chain.input_bytes += variant;
    return {chain, Memory(90'000'000), "rotor", {.memory_slots = 1000}};
  }
  // Nothing that is found at once fits.
  static SolveRequest EndlessWithoutResults() {
    SolveRequest request = Endless();
    request.platform.memory_bytes = FloorOfMemory(request.chain).bytes + 20;
    return request;
  }
  // Some seconds, and it soon has something to show.
  static SolveRequest SlowWithResults() {
    Chain chain = EqualChain(400);
    for (size_t i = 0; i < chain.stages.size(); ++i) {
      chain.stages[i].saved_bytes = 1'000'000 + 1000 * static_cast<int64_t>(i * 37 % 101);
      chain.stages[i].forward_seconds = 1 + static_cast<double>(i * 53 % 17) / 10;
    }
    Platform platform = Memory(100'000'000);
    platform.offload_bytes_per_second = 400'000;
    return {chain, platform, "auto", {}};
  }
  static SolveRequest Quick() { return {EqualChain(10), Memory(150), "rotor", {}}; }
  static SolveRequest Noisy(double factor) {
    SolveRequest request = Quick();
    request.options.time_precision = 0.01;
    for (Stage& stage : request.chain.stages) stage.forward_seconds *= factor;
    return request;
  }

  CountingObserver observer_;
  FakeTier tier_;
  AnswerCache cache_{{2 << 20}, &tier_, observer_};
  Engine engine_{{.threads = 2,
                  .queue_length = 4,
                  .solve_bytes = int64_t{16} << 30,
                  .all_solves_bytes = int64_t{64} << 30},
                 &cache_,
                 &observer_};
};

TEST_F(EngineTest, AnswersWithTheTimeItTook) {
  const SolveResult solved = Answered(Quick());
  EXPECT_EQ(solved.answer->solver, "rotor");
  EXPECT_EQ(solved.origin.source, Origin::Source::kSolved);
  EXPECT_GT(solved.origin.solve_seconds, 0);
  EXPECT_GE(solved.origin.queue_seconds, 0);
}

TEST_F(EngineTest, ReturnsACachedAnswer) {
  const SolveResult first = Answered(Quick());
  const SolveResult second = Answered(Quick());
  EXPECT_EQ(second.origin.source, Origin::Source::kMemoryCache);
  EXPECT_EQ(second.answer->schedule, first.answer->schedule);
  EXPECT_EQ(second.origin.fingerprint, first.origin.fingerprint);
  EXPECT_EQ(second.answer->prediction.makespan_seconds, first.answer->prediction.makespan_seconds);
}

TEST_F(EngineTest, SolvesAgainWhereTheCacheIsNotToBeUsed) {
  Answered(Quick());
  SolveRequest anew = Quick();
  anew.options.use_cache = false;
  EXPECT_EQ(Answered(anew).origin.source, Origin::Source::kSolved);
}

TEST_F(EngineTest, AnswersNoisyProfilesFromOneSolveButEachForItsOwnTimes) {
  const SolveResult first = Answered(Noisy(1));
  const SolveRequest noisy = Noisy(1.0001);
  const SolveResult second = Answered(noisy);
  EXPECT_EQ(second.origin.source, Origin::Source::kMemoryCache);
  EXPECT_EQ(second.answer->schedule, first.answer->schedule);
  const auto simulation = Simulate(noisy.chain, noisy.platform, second.answer->schedule);
  ASSERT_THAT(simulation, IsOk());
  EXPECT_EQ(second.answer->prediction.makespan_seconds, simulation->prediction.makespan_seconds);
  EXPECT_NE(second.answer->prediction.makespan_seconds, first.answer->prediction.makespan_seconds);
}

TEST_F(EngineTest, CachesInfeasibleAnswersForExactlyTheirSizes) {
  SolveRequest tight = Quick();
  tight.platform.memory_bytes = 20;
  const SolveResult first = Answered(tight);
  ASSERT_EQ(first.answer->outcome, Outcome::kInfeasible);
  const SolveResult second = Answered(tight);
  EXPECT_EQ(second.origin.source, Origin::Source::kMemoryCache);
  EXPECT_EQ(second.answer->minimum_memory_bytes, first.answer->minimum_memory_bytes);
}

TEST_F(EngineTest, FindsInTheTierWhatAnotherProcessStored) {
  const SolveResult first = Answered(Quick());
  engine_.Drain(Clock::now() + kLong);  // the tier has it now
  AnswerCache cache({2 << 20}, &tier_, observer_);
  Engine next({.threads = 1}, &cache, &observer_);
  for (const Origin::Source source : {Origin::Source::kDiskCache, Origin::Source::kMemoryCache}) {
    auto listener = std::make_shared<RecordingListener>();
    next.Solve(Quick(), {}, listener);
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->origin.source, source);
    EXPECT_EQ(result->answer->schedule, first.answer->schedule);
    EXPECT_EQ(result->answer->outcome, first.answer->outcome);
    EXPECT_EQ(result->answer->explanation.stages.size(), 10);
  }
}

TEST_F(EngineTest, ContinuesWithoutATierThatFails) {
  tier_.Break();
  EXPECT_EQ(Answered(Quick()).origin.source, Origin::Source::kSolved);
  EXPECT_EQ(Answered(Quick()).origin.source, Origin::Source::kMemoryCache);
  engine_.Drain(Clock::now() + kLong);
  EXPECT_GE(observer_.failures, 2);  // a read and the write
}

TEST_F(EngineTest, SolvesEqualRequestsOnce) {
  SolveRequest slow = Endless();
  slow.platform.memory_bytes = 30'000'000;
  slow.options.memory_slots = 150;  // some tenths of a second
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 100; ++i) listeners.push_back(Send(slow));
  int solved = 0;
  const Answer* answer = nullptr;
  for (const ListenerPtr& listener : listeners) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    solved += result->origin.source == Origin::Source::kSolved ? 1 : 0;
    if (answer == nullptr) answer = result->answer.get();
    if (result->origin.source == Origin::Source::kMemoryCache) continue;
    EXPECT_EQ(result->answer.get(), answer);
  }
  EXPECT_EQ(solved, 1);
}

TEST_F(EngineTest, StopsASolveWhenTheLastOfItsCallersLeaves) {
  std::vector<std::stop_source> callers(3);
  std::vector<ListenerPtr> listeners;
  for (std::stop_source& caller : callers) {
    listeners.push_back(Send(Endless(), {.stop = caller.get_token()}));
  }
  WaitUntilRunning(1);
  callers[0].request_stop();
  callers[1].request_stop();
  for (int i : {0, 1}) EXPECT_THAT(listeners[i]->Wait(), Fails(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(engine_.stats().solves.running, 1);
  callers[2].request_stop();
  EXPECT_THAT(listeners[2]->Wait(),
              Fails(absl::StatusCode::kCancelled, HasSubstr("no longer waits")));
  const auto left = Clock::now();
  while (engine_.stats().solves.running > 0) std::this_thread::yield();
  EXPECT_LT(Clock::now() - left, kLong);
}

TEST_F(EngineTest, CountsASolveOnceThoughItsFirstCallerHasLeft) {
  SolveRequest slow = Endless();
  slow.platform.memory_bytes = 30'000'000;
  slow.options.memory_slots = 150;
  std::stop_source gone;
  const ListenerPtr first = Send(slow, {.stop = gone.get_token()});
  const ListenerPtr second = Send(slow);
  const ListenerPtr third = Send(slow);
  gone.request_stop();
  (void)first->Wait();
  const auto one = second->Wait();
  const auto other = third->Wait();
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(one->origin.source, Origin::Source::kSolved);
  EXPECT_EQ(other->origin.source, Origin::Source::kCoalesced);
}

// A request that only rounds to the same instance gets the best schedule, too, without the loss.
TEST_F(EngineTest, ReturnsTheBestSoFarThoughTheRoundingLossWasRequested) {
  SolveRequest patient = SlowWithResults();
  patient.options.time_precision = 0.01;
  patient.options.report_rounding_loss = true;
  SolveRequest hasty = patient;
  hasty.chain.stages[0].forward_seconds *= 1.0001;
  hasty.options.time_budget_seconds = 0.1;
  std::stop_source caller;
  const ListenerPtr first = Send(patient, {.stop = caller.get_token()});
  const ListenerPtr second = Send(hasty);
  const auto result = second->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->limit, Limit::kTime);
  caller.request_stop();
  EXPECT_THAT(first->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

// The request sets no memory budget, but the solves for its points need memory all the same.
TEST_F(EngineTest, DeclaresTheMemoryOfAFrontier) {
  const SolveRequest endless = Endless();
  std::stop_source caller;
  std::promise<void> done;
  FrontierRequest request;
  request.chain = endless.chain;
  request.solver = endless.solver;
  request.options = endless.options;
  engine_.FindFrontier(request, {.stop = caller.get_token()},
                       [&done](const auto&) { done.set_value(); });
  WaitUntilRunning(1);
  EXPECT_GT(engine_.stats().solves.running_bytes, 100 << 20);
  caller.request_stop();
  done.get_future().wait();
}

TEST_F(EngineTest, SolvesAgainForACallerAfterTheLastOneLeft) {
  std::stop_source gone;
  const ListenerPtr first = Send(Endless(), {.stop = gone.get_token()});
  WaitUntilRunning(1);
  gone.request_stop();
  EXPECT_THAT(first->Wait(), Fails(absl::StatusCode::kCancelled, _));
  std::stop_source caller;
  const ListenerPtr second = Send(Endless(), {.stop = caller.get_token()});
  while (second->progress < 0) std::this_thread::yield();
  caller.request_stop();
  EXPECT_THAT(second->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(EngineTest, DoesNotStartASolveWhoseCallerHasLeft) {
  std::stop_source caller;
  caller.request_stop();
  const ListenerPtr listener = Send(Quick(), {.stop = caller.get_token()});
  EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, HasSubstr("no longer waits")));
  EXPECT_EQ(listener->progress, -1);
}

TEST_F(EngineTest, AnswersWithTheBestSoFarWhenTheTimeBudgetIsUsedUp) {
  SolveRequest request = SlowWithResults();
  request.options.time_budget_seconds = 0.2;
  const ListenerPtr listener = Send(request);
  const auto result = listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->limit, Limit::kTime);
  EXPECT_EQ(result->answer->outcome, Outcome::kFeasible);
  EXPECT_LE(result->answer->prediction.peak_memory_bytes, request.platform.memory_bytes);
  engine_.Drain(Clock::now());
  EXPECT_EQ(cache_.memory_stats().entries, 0) << "an answer cut short was cached";
  EXPECT_EQ(tier_.stats().entries, 0);
}

TEST_F(EngineTest, ReportsProgressAndEachBetterSchedule) {
  std::stop_source caller;
  const ListenerPtr listener = Send(SlowWithResults(), {.stop = caller.get_token()});
  while (listener->improvements == 0) std::this_thread::yield();
  EXPECT_EQ(listener->queued, 1);
  EXPECT_GE(listener->progress, 0);
  caller.request_stop();
  EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(EngineTest, ListsWhatRunsWithItsSolverAndProgressUntilItsAnswer) {
  std::stop_source callers;
  const auto wait_for_progress = [this](size_t solves) {
    const auto begun = [](const RunningSolve& solve) { return solve.fraction > 0; };
    EngineStats stats;
    while (stats.running.size() < solves || !std::ranges::all_of(stats.running, begun)) {
      std::this_thread::yield();
      stats = engine_.stats();
    }
    return stats;
  };
  const ListenerPtr first = Send(Endless(), {.stop = callers.get_token()});
  wait_for_progress(1);
  const ListenerPtr second = Send(SlowWithResults(), {.stop = callers.get_token()});
  const EngineStats stats = wait_for_progress(2);
  EXPECT_EQ(stats.threads, 2);
  EXPECT_EQ(stats.running[0].solver, "rotor");
  EXPECT_EQ(stats.running[0].stages, 600);
  EXPECT_EQ(stats.running[1].solver, "auto");
  EXPECT_EQ(stats.running[1].stages, 400);
  for (int thread : {0, 1}) {
    EXPECT_EQ(stats.running[thread].thread, thread);
    EXPECT_LE(stats.running[thread].fraction, 1);
    EXPECT_GT(stats.running[thread].seconds, 0);
  }
  callers.request_stop();
  for (const ListenerPtr& listener : {first, second}) (void)listener->Wait();
  engine_.Drain(Clock::now());
  EXPECT_TRUE(engine_.stats().running.empty());
}

TEST_F(EngineTest, ASolveIsNoLongerListedWhenItsCallerHasTheAnswer) {
  for (int i = 0; i < 20; ++i) {
    SolveRequest request = Quick();
    request.options.use_cache = false;
    Answered(request);
    EXPECT_TRUE(engine_.stats().running.empty());
  }
}

TEST_F(EngineTest, ListsFrontiersToo) {
  const SolveRequest endless = Endless();
  std::stop_source caller;
  std::promise<void> done;
  FrontierRequest request;
  request.chain = endless.chain;  // and no solver, which is auto
  engine_.FindFrontier(request, {.stop = caller.get_token()},
                       [&done](const auto&) { done.set_value(); });
  while (engine_.stats().running.empty()) std::this_thread::yield();
  EXPECT_EQ(engine_.stats().running[0].solver, "auto");
  EXPECT_EQ(engine_.stats().running[0].stages, 600);
  caller.request_stop();
  done.get_future().wait();
  EXPECT_TRUE(engine_.stats().running.empty());
}

TEST_F(EngineTest, AnswersBeforeTheCallersDeadline) {
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  const auto result = Send(SlowWithResults(), {.deadline = deadline})->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->limit, Limit::kTime);
}

TEST_F(EngineTest, EachTakesTheBestAtItsOwnDeadline) {
  SolveRequest patient = SlowWithResults();
  patient.options.time_budget_seconds = 1;
  SolveRequest hasty = SlowWithResults();
  hasty.options.time_budget_seconds = 0.1;
  const ListenerPtr second = Send(patient);
  const ListenerPtr first = Send(hasty);
  const auto early = first->Wait();
  const auto late = second->Wait();
  ASSERT_THAT(early, IsOk());
  ASSERT_THAT(late, IsOk());
  EXPECT_LE(late->answer->prediction.makespan_seconds, early->answer->prediction.makespan_seconds);
  EXPECT_EQ(early->origin.source, Origin::Source::kCoalesced);
}

TEST_F(EngineTest, RefusesWhatTheQueueCannotHold) {
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 6; ++i) listeners.push_back(Send(Endless(i), {.stop = callers.get_token()}));
  for (const ListenerPtr& listener : listeners) {
    while (listener->queued == 0) std::this_thread::yield();
  }
  const ListenerPtr refused = Send(Endless(6));  // 2 + 4 fit
  const auto result = refused->Wait();
  EXPECT_THAT(result, Fails(absl::StatusCode::kResourceExhausted, HasSubstr("full")));
  EXPECT_EQ(result.status().GetPayload(kRejectionPayload), "queue_full");
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(EngineTest, ReturnsCachedAnswersWhileAllThreadsSolve) {
  Answered(Quick());
  std::stop_source callers;
  std::vector<ListenerPtr> busy;
  for (int i = 0; i < 2; ++i) busy.push_back(Send(Endless(i), {.stop = callers.get_token()}));
  WaitUntilRunning(2);
  EXPECT_EQ(Answered(Quick()).origin.source, Origin::Source::kMemoryCache);
  callers.request_stop();
  for (const ListenerPtr& listener : busy) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(EngineTest, SimulatesBesideSolves) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<ExplainedSimulation>>>();
  engine_.Simulate({EqualChain(2), Memory(100), Ops("S1 S2 S3 B3 B2 B1")}, {},
                   [promise](auto result) { promise->set_value(std::move(result)); });
  const auto result = promise->get_future().get();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->simulation.prediction.makespan_seconds, 6);
}

TEST_F(EngineTest, DrainsWhatRunsAndRefusesTheRest) {
  const ListenerPtr running = Send(Quick());
  engine_.Drain(Clock::now() + kLong);
  EXPECT_THAT(running->Wait(), IsOk());
  EXPECT_THAT(Send(Quick())->Wait(), Fails(absl::StatusCode::kUnavailable, HasSubstr("draining")));
}

TEST_F(EngineTest, StopsWhatOutlastsTheGracePeriod) {
  const ListenerPtr running = Send(EndlessWithoutResults());
  engine_.Drain(Clock::now() + milliseconds(20));
  EXPECT_THAT(running->Wait(),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("ask another server")));
}

// Callers come, leave and time out at random; each gets exactly one Done().
TEST_F(EngineTest, EndsEveryCallOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> ended{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 40; ++i) {
        std::stop_source caller;
        SolveRequest request = (i + thread) % 3 == 0 ? Quick() : Endless(i % 2);
        if (i % 4 == 0) request.options.time_budget_seconds = 0.001;
        const auto deadline = Clock::now() + milliseconds(i);
        const ListenerPtr listener =
            Send(request, {.deadline = deadline, .stop = caller.get_token()});
        std::this_thread::sleep_for(milliseconds(i % 5));
        caller.request_stop();
        (void)listener->Wait();
        ++ended;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(ended, 160);
  engine_.Drain(Clock::now());
  EXPECT_EQ(engine_.stats().requests, 0);
}

}  // namespace
}  // namespace stowage

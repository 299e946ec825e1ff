#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/service/results.h"
#include "server/events/rejection.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::_;
using testing::HasSubstr;

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
  AnswerCache cache({2 << 20}, {{"disk", Origin::Source::kDiskCache, &tier_}}, observer_);
  Engine next({.threads = 1}, &cache, &observer_);
  auto listener = std::make_shared<RecordingListener>();
  next.Solve(Quick(), {}, listener);
  const auto result = listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->origin.source, Origin::Source::kDiskCache);
  EXPECT_EQ(result->answer->schedule, first.answer->schedule);
  EXPECT_EQ(result->answer->explanation.stages.size(), 10);
}

// No tier would serve them: there they would only take the room of others.
TEST_F(EngineTest, KeepsFiguresThatAScheduleDoesNotShowInMemoryOnly) {
  SolveRequest rounded = Quick();
  rounded.options.report_rounding_loss = true;
  EXPECT_EQ(Answered(rounded).origin.source, Origin::Source::kSolved);
  EXPECT_EQ(Answered(rounded).origin.source, Origin::Source::kMemoryCache);
  Answered(Quick());
  engine_.Drain(Clock::now() + kLong);  // what is written has been written
  EXPECT_EQ(tier_.stats().entries, 1) << "of the request without such a figure";
}

TEST_F(EngineTest, ContinuesWithoutATierThatFails) {
  tier_.Break();
  EXPECT_EQ(Answered(Quick()).origin.source, Origin::Source::kSolved);
  EXPECT_EQ(Answered(Quick()).origin.source, Origin::Source::kMemoryCache);
  engine_.Drain(Clock::now() + kLong);
  EXPECT_GE(observer_.failures, 2);  // a read and the write
}

TEST_F(EngineTest, DoesNotStartASolveWhoseCallerHasLeft) {
  std::stop_source caller;
  caller.request_stop();
  const ListenerPtr listener = Send(Quick(), {.stop = caller.get_token()});
  EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, HasSubstr("no longer waits")));
  EXPECT_EQ(listener->progress, -1);
}

TEST(EngineResources, ExpectSolvesThatSearchToTakeLonger) {
  const auto is_short = [](int stages, const char* solver, bool has_modes, bool has_link) {
    SolveRequest request = {EqualChain(stages), Memory(1000), solver, {}};
    if (has_modes) request.chain.stages[0].graph.emplace();
    if (has_link) request.platform.offload_bytes_per_second = 1;
    return EngineResources::IsShort(request, ChainUnits(request.chain), /*bytes=*/1 << 20);
  };
  EXPECT_TRUE(is_short(128, "auto", false, false));
  EXPECT_FALSE(is_short(129, "auto", false, false));
  EXPECT_TRUE(is_short(16, "auto", true, false));
  EXPECT_FALSE(is_short(64, "auto", true, false));
  EXPECT_TRUE(is_short(64, "rotor", true, false)) << "which weighs no modes";
  EXPECT_TRUE(is_short(16, "auto", false, true));
  EXPECT_FALSE(is_short(16, "auto", true, true));
}

// All threads are taken by solves that do not end.
TEST_F(EngineTest, KeepsATimeBudgetWhileTheSolveWaitsForItsTurn) {
  std::stop_source others;
  std::vector<ListenerPtr> endless;
  for (int i = 0; i < engine_.stats().threads; ++i) {
    endless.push_back(Send(Endless(i), {.client = "other", .stop = others.get_token()}));
  }
  WaitUntilRunning(endless.size());
  SolveRequest request = SlowWithResults();
  request.options.time_budget_seconds = 0.01;
  const auto result = Send(request, {.client = "hasty"})->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->outcome, Outcome::kFeasible);
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
  EXPECT_EQ(result->origin.solve_seconds, 0) << "it was not solved";
  EXPECT_EQ(engine_.stats().solves.running, endless.size());

  const ListenerPtr late =
      Send(request, {.client = "late", .deadline = Clock::now() + std::chrono::seconds(1)});
  EXPECT_THAT(late->Wait(), IsOk()) << "a deadline likewise";
  others.request_stop();
  for (const ListenerPtr& listener : endless) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(EngineTest, AnswersWithTheBestSoFarWhenTheTimeBudgetIsUsedUp) {
  SolveRequest request = SlowWithResults();
  request.options.time_budget_seconds = 0.2;
  const ListenerPtr listener = Send(request);
  const auto result = listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
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

TEST_F(EngineTest, AnswersBeforeTheCallersDeadline) {
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  SolveRequest slower = SlowWithResults();
  slower.options.memory_slots = 20'000;
  const auto result = Send(slower, {.deadline = deadline})->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
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

TEST_F(EngineTest, RefusesAClientWhoseRequestsTakeTooMuchMemory) {
  Engine engine({.threads = 1, .request_bytes = 5 * BytesOf(Endless())}, &cache_, &observer_);
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  const auto send = [&](int variant, const std::string& client) {
    listeners.push_back(std::make_shared<RecordingListener>());
    engine.Solve(Endless(variant), {.client = client, .stop = callers.get_token()},
                 listeners.back());
    return listeners.back();
  };
  send(0, "greedy");
  send(1, "greedy");
  const auto refused = send(2, "greedy")->Wait();
  listeners.pop_back();
  EXPECT_THAT(refused, Fails(absl::StatusCode::kResourceExhausted, HasSubstr("of this client")));
  EXPECT_EQ(RejectionOf(refused.status()), "request_memory");
  send(3, "other");
  callers.request_stop();
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(EngineTest, AFullQueueHasRoomForAClientWithoutWork) {
  std::stop_source callers;
  std::vector<ListenerPtr> listeners;
  const auto send = [&](int variant, const std::string& client) {
    listeners.push_back(Send(Endless(variant), {.client = client, .stop = callers.get_token()}));
    while (listeners.back()->queued == 0) std::this_thread::yield();
  };
  for (int i = 0; i < 6; ++i) send(i, "greedy");  // 2 + 4 fit
  while (engine_.stats().solves.waiting < 4) std::this_thread::yield();
  send(6, "modest");
  const auto dropped = listeners[5]->Wait();
  EXPECT_EQ(RejectionOf(dropped.status()), "queue_full");
  EXPECT_TRUE(dropped.status().GetPayload(kRetryPayload).has_value());
  callers.request_stop();
  listeners.erase(listeners.begin() + 5);
  for (const ListenerPtr& listener : listeners) {
    EXPECT_THAT(listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  }
}

TEST_F(EngineTest, ALongSimulationWaitsForATurnAmongTheSolves) {
  std::stop_source callers;
  std::vector<ListenerPtr> busy;
  for (int i = 0; i < 2; ++i) busy.push_back(Send(Endless(i), {.stop = callers.get_token()}));
  WaitUntilRunning(2);
  const auto simulate = [this](int operations, std::stop_token stop) {
    Schedule schedule;
    for (int i = 0; i < operations; i += 3) {  // the input goes to the host and back
      for (const OperationKind kind :
           {OperationKind::kOffload, OperationKind::kRelease, OperationKind::kPrefetch}) {
        schedule.operations.push_back({.kind = kind, .stage = 0});
      }
    }
    const Schedule last = Ops("S1 S2 S3 B3 B2 B1");
    schedule.operations.insert(schedule.operations.end(), last.operations.begin(),
                               last.operations.end());
    auto promise = std::make_shared<std::promise<absl::StatusOr<ExplainedSimulation>>>();
    Platform platform = Memory(100);
    platform.offload_bytes_per_second = 100;
    engine_.Simulate({EqualChain(2), platform, std::move(schedule)}, {.stop = std::move(stop)},
                     [promise](auto result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  };
  std::future<absl::StatusOr<ExplainedSimulation>> waits = simulate(500'000, callers.get_token());
  EXPECT_EQ(engine_.stats().solves.waiting, 1);
  EXPECT_THAT(simulate(100, {}).get(), IsOk());
  callers.request_stop();
  EXPECT_THAT(waits.get(), Fails(absl::StatusCode::kCancelled, _));
  for (const ListenerPtr& listener : busy) (void)listener->Wait();
  EXPECT_THAT(simulate(500'000, {}).get(), IsOk());
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

// The service without its wire, threads included; runs under ThreadSanitizer.
#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <vector>

#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{60};

// An engine and what its callers hear.
class EngineTest : public testing::Test {
 protected:
  using Result = absl::StatusOr<TimedAnswer>;

  std::future<Result> Solve(SolveRequest request, std::stop_token stop = {}) {
    auto promise = std::make_shared<std::promise<Result>>();
    engine_.Solve(std::move(request), std::move(stop),
                  [promise](Result result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }

  // Takes minutes unless it is stopped.
  static SolveRequest Endless() {
    Chain chain = EqualChain(600);
    for (Stage& stage : chain.stages) stage.saved_bytes = 1'000'000;
    return {chain, Memory(90'000'000), "rotor", {.memory_slots = 1000}};
  }
  static SolveRequest Quick() { return {EqualChain(10), Memory(150), "rotor", {}}; }

  Engine engine_{{.threads = 2, .queue_length = 4, .solve_bytes = int64_t{16} << 30}};
};

TEST_F(EngineTest, AnswersWithTheTimeItTook) {
  const Result result = Solve(Quick()).get();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->result.solver, "rotor");
  EXPECT_GT(result->solve_seconds, 0);
  EXPECT_GE(result->queue_seconds, 0);
}

TEST_F(EngineTest, AnswersManyAtOnceAlike) {
  Engine engine({.threads = 4, .queue_length = 100});
  std::vector<std::future<Result>> results;
  for (int i = 0; i < 60; ++i) {
    auto promise = std::make_shared<std::promise<Result>>();
    results.push_back(promise->get_future());
    engine.Solve(Quick(), {}, [promise](Result result) { promise->set_value(std::move(result)); });
  }
  const Result first = results.front().get();
  ASSERT_THAT(first, IsOk());
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].get()->result.schedule, first->result.schedule);
  }
}

TEST_F(EngineTest, StopsASolveWhoseCallerLeft) {
  std::stop_source caller;
  std::future<Result> result = Solve(Endless(), caller.get_token());
  caller.request_stop();
  ASSERT_EQ(result.wait_for(kLong), std::future_status::ready);
  EXPECT_THAT(result.get(), Fails(absl::StatusCode::kCancelled, testing::_));
}

TEST_F(EngineTest, DoesNotStartWhatNobodyWaitsFor) {
  std::stop_source caller;
  caller.request_stop();
  EXPECT_THAT(Solve(Quick(), caller.get_token()).get(),
              Fails(absl::StatusCode::kCancelled, testing::HasSubstr("nobody waits")));
}

TEST_F(EngineTest, RefusesWhatTheQueueCannotHold) {
  std::stop_source callers;
  std::vector<std::future<Result>> results;
  results.reserve(7);
  for (int i = 0; i < 7; ++i)
    results.push_back(Solve(Endless(), callers.get_token()));  // 2 + 4 fit
  EXPECT_THAT(results.back().get(),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("full")));
  results.pop_back();
  callers.request_stop();
  for (auto& result : results)
    EXPECT_THAT(result.get(), Fails(absl::StatusCode::kCancelled, testing::_));
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
  std::future<Result> running = Solve(Quick());
  engine_.Drain(Clock::now() + kLong);
  EXPECT_THAT(running.get(), IsOk());
  EXPECT_THAT(Solve(Quick()).get(),
              Fails(absl::StatusCode::kUnavailable, testing::HasSubstr("draining")));
}

TEST_F(EngineTest, StopsWhatOutlastsTheGracePeriod) {
  std::future<Result> running = Solve(Endless());
  engine_.Drain(Clock::now() + std::chrono::milliseconds(20));
  EXPECT_THAT(running.get(),
              Fails(absl::StatusCode::kUnavailable, testing::HasSubstr("ask another")));
}

}  // namespace
}  // namespace stowage

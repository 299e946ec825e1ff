// Requests that only round to the same instance: they share one solve, and each gets the figures of
// its own chain.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "proto/service/origin.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::_;

class SimilarRequestsTest : public EngineTest {};

// A request that only rounds to the same instance gets the best schedule, too, without the loss.
TEST_F(SimilarRequestsTest, ReturnsTheBestSoFarThoughTheRoundingLossWasRequested) {
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
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
  caller.request_stop();
  EXPECT_THAT(first->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

// The figures of one caller are not another's, and its schedule may not fit there.
TEST_F(SimilarRequestsTest, OnlyCallersWhoseChainIsSolvedLearnOfBetterSchedules) {
  SolveRequest request = SlowWithResults();
  request.options.time_precision = 0.01;
  std::stop_source callers;
  const ListenerPtr other = Send(request, {.stop = callers.get_token()});
  const ListenerPtr similar = Send(Similar(request), {.stop = callers.get_token()});
  const ListenerPtr equal = Send(request, {.stop = callers.get_token()});
  // The similar one does share the solve.
  while (other->improvements < 2 || equal->improvements < 2 || similar->progress < 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(similar->improvements, 0);
  callers.request_stop();
  for (const ListenerPtr& listener : {other, similar, equal}) (void)listener->Wait();
}

// The answer has to be simulated for a caller with a similar chain, in its turn; it may leave
// before that, and callers with the solved chain do not wait for it.
TEST_F(SimilarRequestsTest, CallersWithOtherChainsAreWatchedUntilTheirTurn) {
  std::stop_source caller;
  const ListenerPtr equal = Send(Slow());
  const ListenerPtr similar = Send(Similar(Slow()), {.stop = caller.get_token()});
  while (equal->progress < 0) std::this_thread::yield();
  BlockQuickThreads();
  EXPECT_THAT(equal->Wait(), IsOk());
  caller.request_stop();
  EXPECT_THAT(similar->Wait(), Fails(absl::StatusCode::kCancelled, _));
  tier_.Resume();
}

// It is behind the other requests of its client, but not refused: it was admitted once already.
TEST_F(SimilarRequestsTest, ACallerWhoseTimeIsUpWaitsForItsClientsTurn) {
  SolveRequest request = Endless();
  request.options.time_precision = 0.01;
  SolveRequest hasty = Similar(request);
  hasty.options.time_budget_seconds = 0.1;
  std::stop_source caller;
  const ListenerPtr patient = Send(request, {.client = "patient", .stop = caller.get_token()});
  while (patient->improvements == 0) std::this_thread::yield();
  BlockQuickThreads();
  std::atomic<int> simulated{0};
  for (int i = 0; i < 1024; ++i) {
    engine_.Simulate({EqualChain(2), Memory(100), Ops("S1 S2 S3 B3 B2 B1")}, {.client = "flood"},
                     [&simulated](const auto& /*result*/) { ++simulated; });
  }
  const ListenerPtr late = Send(hasty, {.client = "flood"});
  std::this_thread::sleep_for(milliseconds(200));
  tier_.Resume();
  EXPECT_THAT(late->Wait(), IsOk());
  EXPECT_GE(simulated, 1000) << "of the client's requests before it";
  caller.request_stop();
  engine_.Drain(Clock::now() + kLong);  // the others use what is here
}

TEST_F(SimilarRequestsTest, NoRankOfAJobIsRefusedOnceItsSolveHasSucceeded) {
  std::stop_source& gone = stops_[0];
  tier_.Pause();
  const ListenerPtr first = Send(OfRank(0, Slow()), {.client = "job"});
  std::vector<ListenerPtr> ranks;
  for (int rank = 1; rank < kRanks; ++rank) {
    ranks.push_back(Send(OfRank(rank, Slow()), {.client = "job"}));
  }
  const ListenerPtr left =
      Send(OfRank(kRanks, Slow()), {.client = "job", .stop = gone.get_token()});
  tier_.Resume();
  while (first->progress < 0) std::this_thread::yield();
  BlockQuickThreads();
  EXPECT_THAT(first->Wait(), IsOk());
  std::this_thread::sleep_for(milliseconds(50));  // the others wait for their turns
  gone.request_stop();
  EXPECT_THAT(left->Wait(), Fails(absl::StatusCode::kCancelled, _));
  tier_.Resume();
  for (const ListenerPtr& listener : ranks) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->origin.source, Origin::Source::kCoalesced);
  }
}

// Their simulations wait among the solves, of which the client may have one.
TEST_F(SimilarRequestsTest, NoRankOfAJobWithALongChainIsRefusedOnceItsSolveHasSucceeded) {
  const SolveRequest request = {EqualChain(3400), Memory(1'000'000), "store_all", {}};
  const Caller job = {.client = "job", .limits = kOneSolve};
  tier_.Pause();
  std::vector<ListenerPtr> ranks;
  for (int rank = 0; rank < 20; ++rank) ranks.push_back(Send(OfRank(rank, request), job));
  tier_.Resume();
  int solved = 0;
  for (const ListenerPtr& listener : ranks) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    solved += result->origin.source == Origin::Source::kSolved ? 1 : 0;
  }
  EXPECT_EQ(solved, 1);
}

TEST_F(SimilarRequestsTest, NoRankOfAJobIsRefusedWhenTheTimeOfAllIsUp) {
  std::stop_source& caller = stops_[0];
  const ListenerPtr patient =
      Send(OfRank(0, Endless()), {.client = "job", .stop = caller.get_token()});
  while (patient->improvements == 0) std::this_thread::yield();
  BlockQuickThreads();
  std::vector<ListenerPtr> ranks;
  for (int rank = 1; rank < kRanks; ++rank) {
    SolveRequest hasty = OfRank(rank, Endless());
    hasty.options.time_budget_seconds = 0.05;
    ranks.push_back(Send(std::move(hasty), {.client = "job"}));
  }
  std::this_thread::sleep_for(milliseconds(200));
  tier_.Resume();
  // With the best schedule so far, or with the answer where the solve ends first.
  for (const ListenerPtr& listener : ranks) ASSERT_THAT(listener->Wait(), IsOk());
  caller.request_stop();
  (void)patient->Wait();
}

// It waits for the simulation of the answer, and its time comes first.
TEST_F(SimilarRequestsTest, ACallerWhoseTimeIsUpAfterTheSolveGetsASchedule) {
  const ListenerPtr equal = Send(Similar(Slow(), 1));
  while (equal->progress < 0) std::this_thread::yield();
  BlockQuickThreads();
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  const ListenerPtr similar = Send(Similar(Slow()), {.deadline = deadline});
  EXPECT_THAT(equal->Wait(), IsOk());
  std::this_thread::sleep_until(deadline);
  tier_.Resume();
  EXPECT_THAT(similar->Wait(), IsOk());
}

// INFEASIBLE holds for exactly the sizes of the first caller.
TEST_F(SimilarRequestsTest, CallersWhomTheAnswerDoesNotFitShareOneSolve) {
  SolveRequest forged = Quick();
  for (Stage& stage : forged.chain.stages) {
    stage.output_bytes *= 1'000'000;
    stage.saved_bytes *= 1'000'000;
  }
  forged.platform.memory_bytes = 4'000'000;
  forged.options.time_precision = 0.01;
  forged.chain.input_bytes = 1'000'001;
  SolveRequest honest = forged;
  honest.chain.input_bytes = 1'000'002;
  tier_.Pause();
  std::vector<ListenerPtr> listeners = {Send(forged, {.client = "forger"})};
  for (int i = 0; i < 50; ++i) listeners.push_back(Send(honest, {.client = "job"}));
  tier_.Resume();
  int solved = 0;
  for (const ListenerPtr& listener : listeners) {
    const auto result = listener->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->answer->outcome, Outcome::kInfeasible);
    solved += result->origin.source == Origin::Source::kSolved ? 1 : 0;
  }
  EXPECT_EQ(solved, 2);
  EXPECT_EQ(engine_.stats().requests, 0);
}

}  // namespace
}  // namespace stowage

#include "server/engine/solves/solve_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <stop_token>
#include <utility>
#include <vector>

#include "tests/support/solved_requests.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::HasSubstr;
using Clock = Timers::Clock;
using Source = Origin::Source;

// Solves that take no course: the test says what comes of them.
class SolveDeliveryTest : public EngineTest {
 protected:
  SolvePtr Begin(const NewWaiter& first) {
    const auto solve = std::make_shared<SharedSolve>(*first.waiter);
    Join(solve, first);
    return solve;
  }
  void Join(const SolvePtr& solve, const NewWaiter& waiter) {
    ASSERT_THAT(pending_.Begin(), IsOk());
    ASSERT_TRUE(solve->Join(waiter.waiter));
    delivery_.Watch(solve, waiter.waiter);
  }
  // As a drain, which a request that does not finish keeps waiting.
  void WaitUntilAllHaveFinished() { pending_.Wait(); }
  static SolveRequest Coarse(double factor = 1) { return Similar(Quick(), factor); }

  PendingRequests pending_;
  std::promise<std::vector<WaiterPtr>> again_;  // of those whom a schedule does not fit
  SolveDelivery delivery_{resources_, pending_, [this](const std::vector<WaiterPtr>& waiters) {
                            again_.set_value(waiters);
                          }};
  EngineResources resources_{{.threads = 1}, &cache_, &observer_, nullptr};
};

TEST_F(SolveDeliveryTest, ACallerThatLeavesEndsAtOnceAndTheLastOneStopsTheSolve) {
  std::stop_source one;
  std::stop_source other;
  const NewWaiter first(Quick(), {.stop = one.get_token()});
  const NewWaiter second(Quick(), {.stop = other.get_token()});
  const SolvePtr solve = Begin(first);
  Join(solve, second);
  one.request_stop();
  EXPECT_THAT(first.listener->Wait(),
              Fails(absl::StatusCode::kCancelled, HasSubstr("no longer waits")));
  EXPECT_FALSE(solve->stop_token().stop_requested());
  other.request_stop();
  EXPECT_THAT(second.listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
  EXPECT_TRUE(solve->stop_token().stop_requested());
  WaitUntilAllHaveFinished();
}

TEST_F(SolveDeliveryTest, ACallerThatHasLeftBeforeItIsWatchedEnds) {
  stops_[0].request_stop();
  const NewWaiter gone(Quick(), {.stop = stops_[0].get_token()});
  Begin(gone);
  EXPECT_THAT(gone.listener->Wait(), Fails(absl::StatusCode::kCancelled, _));
}

TEST_F(SolveDeliveryTest, WhoseTimeIsUpGetsTheBestScheduleSoFar) {
  const NewWaiter first(Quick());
  const SolvePtr solve = Begin(first);
  solve->Started();
  delivery_.Improved(solve, Solve(Quick())->answer);
  EXPECT_EQ(first.listener->improvements, 1);
  const NewWaiter hasty(Quick(), {}, Clock::now());
  Join(solve, hasty);
  const auto result = hasty.listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer, solve->best());
  EXPECT_EQ(result->origin.source, Source::kCoalesced);
  delivery_.EndAll(solve, absl::InternalError("the end"));
  EXPECT_THAT(first.listener->Wait(), Fails(absl::StatusCode::kInternal, _));
  WaitUntilAllHaveFinished();
}

TEST_F(SolveDeliveryTest, WhoseTimeIsUpBeforeTheSolveRunsGetsAFirstSchedule) {
  const NewWaiter hasty(SlowWithResults(), {}, Clock::now());
  const SolvePtr solve = Begin(hasty);
  EXPECT_THAT(hasty.listener->Wait(), IsOk());
  EXPECT_TRUE(solve->stop_token().stop_requested());
}

TEST_F(SolveDeliveryTest, AnAnswerIsSimulatedForOtherChainsAndCountsAsSolvedOnce) {
  const NewWaiter exact(Coarse());
  const NewWaiter equal(Coarse());
  const NewWaiter similar(Coarse(1.0001), {.client = "similar"});
  const SolvePtr solve = Begin(exact);
  Join(solve, equal);
  Join(solve, similar);
  const CachedAnswerPtr answer = Solve(Coarse());
  delivery_.EndAll(solve, answer, Source::kSolved);
  const auto one = exact.listener->Wait();
  const auto other = equal.listener->Wait();
  const auto simulated = similar.listener->Wait();
  for (const auto* result : {&one, &other, &simulated}) ASSERT_THAT(*result, IsOk());
  EXPECT_EQ(one->answer.get(), &answer->answer);
  EXPECT_EQ(one->origin.source, Source::kSolved);
  EXPECT_EQ(other->answer, one->answer);
  EXPECT_EQ(other->origin.source, Source::kCoalesced);
  EXPECT_GT(simulated->answer->prediction.makespan_seconds,
            one->answer->prediction.makespan_seconds);
  EXPECT_EQ(simulated->origin.source, Source::kCoalesced);
  WaitUntilAllHaveFinished();
}

TEST_F(SolveDeliveryTest, ThoseWhomTheAnswerDoesNotFitAreSolvedAgainTogether) {
  const NewWaiter exact(Coarse());
  const NewWaiter one(Coarse(1.0001), {.client = "job"});
  const NewWaiter other(Coarse(1.0001), {.client = "job"});
  const SolvePtr solve = Begin(exact);
  Join(solve, one);
  Join(solve, other);
  CachedAnswer wrong = *Solve(Coarse());
  wrong.answer.schedule.operations.pop_back();
  delivery_.EndAll(solve, std::make_shared<const CachedAnswer>(wrong), Source::kDiskCache);
  EXPECT_EQ(exact.listener->Wait()->origin.source, Source::kDiskCache);
  EXPECT_THAT(again_.get_future().get(), ElementsAre(one.waiter, other.waiter));
  for (const WaiterPtr& waiter : {one.waiter, other.waiter}) {
    delivery_.End(waiter, absl::InternalError("not solved again"));
  }
  WaitUntilAllHaveFinished();
}

TEST_F(SolveDeliveryTest, AStoppedSolveEndsWithItsBestScheduleIfThereIsOne) {
  const absl::Status stopped = absl::UnavailableError("stopped");
  const NewWaiter without(Quick());
  delivery_.EndAllWithBest(Begin(without), stopped);
  EXPECT_THAT(without.listener->Wait(), Fails(absl::StatusCode::kUnavailable, _));

  const NewWaiter exact(Coarse());
  const NewWaiter similar(Coarse(1.0001));
  const SolvePtr solve = Begin(exact);
  Join(solve, similar);
  delivery_.Improved(solve, Solve(Coarse())->answer);
  delivery_.EndAllWithBest(solve, stopped);
  EXPECT_EQ(exact.listener->Wait()->answer, solve->best());
  const auto simulated = similar.listener->Wait();
  ASSERT_THAT(simulated, IsOk());
  EXPECT_NE(simulated->answer, solve->best());
  EXPECT_EQ(simulated->answer->schedule, solve->best()->schedule);
}

}  // namespace
}  // namespace stowage

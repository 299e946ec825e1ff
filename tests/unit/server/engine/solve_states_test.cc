// The states of a solve, and what its waiters can do in each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "server/engine/solves/shared_solve.h"
#include "tests/support/solved_requests.h"
#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SolveStatesTest : public EngineTest {
 protected:
  SolveStatesTest() { EXPECT_TRUE(solve_.Join(first_.waiter)); }
  // The time of the first waiter is up, without a schedule to leave with.
  void TimeIsUp() {
    AnswerPtr best;
    EXPECT_EQ(solve_.LeaveWithBest(first_.waiter->id, &best), nullptr);
  }
  static AnswerPtr Schedule() {
    static const CachedAnswerPtr solved = Solve(Quick());
    return {solved, &solved->answer};
  }

  const NewWaiter first_{Quick()};
  SharedSolve solve_{*first_.waiter};
};

TEST_F(SolveStatesTest, FollowTheCourseOfTheSolve) {
  EXPECT_EQ(solve_.state(), SolveState::kLookingUp);
  solve_.Queued(3);
  EXPECT_EQ(solve_.state(), SolveState::kQueued);
  EXPECT_EQ(first_.listener->queued, 1);
  const auto now = Timers::Clock::now();
  solve_.AwaitOther(now);
  solve_.AwaitOther(now + std::chrono::seconds(1));
  EXPECT_EQ(solve_.state(), SolveState::kElsewhere);
  EXPECT_EQ(solve_.awaits_other_since(), now) << "since when it waits, in all";
  solve_.LookUp();
  EXPECT_EQ(solve_.state(), SolveState::kLookingUp);
  EXPECT_FALSE(solve_.started().has_value());
  solve_.Started();
  EXPECT_EQ(solve_.state(), SolveState::kRunning);
  EXPECT_TRUE(solve_.started().has_value());
  EXPECT_EQ(first_.listener->progress, 0);
}

TEST_F(SolveStatesTest, TheEndIsForGood) {
  EXPECT_THAT(solve_.End(), ElementsAre(first_.waiter));
  solve_.Queued(0);
  solve_.Started();
  EXPECT_EQ(solve_.state(), SolveState::kEnded);
  EXPECT_FALSE(solve_.Join(NewWaiter(Quick()).waiter));
  EXPECT_THAT(solve_.End(), IsEmpty());
}

TEST_F(SolveStatesTest, EndsAndStopsWhenItsLastWaiterLeaves) {
  const NewWaiter second(Quick(), {.client = "second"});
  ASSERT_TRUE(solve_.Join(second.waiter));
  solve_.Started();
  EXPECT_EQ(solve_.Leave(first_.waiter->id), first_.waiter);
  EXPECT_EQ(solve_.state(), SolveState::kRunning);
  EXPECT_FALSE(solve_.stop_token().stop_requested());
  EXPECT_THAT(solve_.LeaveAllOf("second"), ElementsAre(second.waiter));
  EXPECT_EQ(solve_.state(), SolveState::kEnded);
  EXPECT_TRUE(solve_.stop_token().stop_requested());
}

TEST_F(SolveStatesTest, AFirstScheduleIsFoundOnceWhereSomebodysTimeIsUpBeforeItRuns) {
  solve_.Queued(1);
  EXPECT_FALSE(solve_.ClaimFirst()) << "nobody is late";
  TimeIsUp();
  EXPECT_TRUE(solve_.ClaimFirst());
  EXPECT_FALSE(solve_.ClaimFirst());
  EXPECT_THAT(solve_.Improved(Schedule()), ElementsAre(first_.waiter));
  EXPECT_EQ(solve_.state(), SolveState::kEnded);
}

TEST_F(SolveStatesTest, ARunningSolveFindsTheFirstScheduleItself) {
  solve_.Started();
  TimeIsUp();
  EXPECT_FALSE(solve_.ClaimFirst());
  EXPECT_THAT(solve_.Improved(Schedule()), ElementsAre(first_.waiter));
}

TEST_F(SolveStatesTest, NobodyIsLateWhoHasLeft) {
  const NewWaiter second(Quick());
  ASSERT_TRUE(solve_.Join(second.waiter));
  TimeIsUp();
  ASSERT_EQ(solve_.Leave(first_.waiter->id), first_.waiter);
  EXPECT_FALSE(solve_.ClaimFirst());
  EXPECT_THAT(solve_.Improved(Schedule()), IsEmpty());
  AnswerPtr best;
  EXPECT_EQ(solve_.LeaveWithBest(second.waiter->id, &best), second.waiter);
  EXPECT_EQ(best, Schedule());
}

TEST_F(SolveStatesTest, ThatNothingFitsIsNoScheduleToLeaveWith) {
  SolveRequest tight = Quick();
  tight.platform.memory_bytes = 20;
  (void)solve_.AwaitAnswer(Solve(tight), Origin::Source::kSolved);
  TimeIsUp();
  EXPECT_EQ(solve_.best(), nullptr);
}

TEST_F(SolveStatesTest, WaitersWithOtherChainsStayAfterTheEndUntilTheirTurn) {
  const NewWaiter similar(Similar(Quick()), {.client = "similar"});
  SharedSolve solve(*NewWaiter(Similar(Quick(), 1)).waiter);
  ASSERT_TRUE(solve.Join(similar.waiter));
  EXPECT_THAT(solve.EndExact(), IsEmpty());
  EXPECT_EQ(solve.state(), SolveState::kEnded);
  EXPECT_FALSE(solve.stop_token().stop_requested()) << "somebody waits";
  const CachedAnswerPtr answer = Solve(Similar(Quick(), 1));
  EXPECT_THAT(solve.AwaitAnswer(answer, Origin::Source::kDiskCache), ElementsAre("similar"));
  const auto next = solve.NextToSimulate("similar");
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(next->waiters, ElementsAre(similar.waiter));
  EXPECT_EQ(next->best, nullptr);
  EXPECT_EQ(next->answer, answer);
  EXPECT_EQ(next->source, Origin::Source::kDiskCache);
  EXPECT_FALSE(solve.HasToSimulate("similar"));
  EXPECT_TRUE(solve.stop_token().stop_requested());
}

}  // namespace
}  // namespace stowage

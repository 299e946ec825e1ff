#include "server/engine/solves/solves_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SolvesInFlightTest : public EngineTest {
 protected:
  static WaiterPtr WaiterOf(SolveRequest request) { return NewWaiter(std::move(request)).waiter; }
  SolvePtr Join(SolveRequest request) { return in_flight_.Join(WaiterOf(std::move(request))); }

  SolvesInFlight in_flight_;
};

TEST_F(SolvesInFlightTest, EqualAndSimilarRequestsShareASolve) {
  const WaiterPtr first = WaiterOf(Similar(Quick(), 1));
  const WaiterPtr equal = WaiterOf(Similar(Quick(), 1));
  const WaiterPtr similar = WaiterOf(Similar(Quick()));
  const SolvePtr solve = in_flight_.Join(first);
  EXPECT_EQ(in_flight_.Join(equal), solve);
  EXPECT_EQ(in_flight_.Join(similar), solve);
  EXPECT_NE(Join(Similar(Quick(1), 1)), solve);
  EXPECT_EQ(in_flight_.size(), 2);
  EXPECT_EQ(first->source, Origin::Source::kSolved) << "it begins the solve";
  EXPECT_EQ(equal->source, Origin::Source::kCoalesced);
  EXPECT_TRUE(solve->SolvesExactly(*equal));
  EXPECT_FALSE(solve->SolvesExactly(*similar));
}

TEST_F(SolvesInFlightTest, WithoutTheCacheEachHasASolveOfItsOwn) {
  SolveRequest request = Quick();
  request.options.use_cache = false;
  const SolvePtr one = Join(request);
  const SolvePtr other = Join(request);
  EXPECT_NE(one, other);
  EXPECT_NE(Join(Quick()), one);
  EXPECT_EQ(in_flight_.size(), 1) << "those that others may join";
  EXPECT_EQ(in_flight_.List().size(), 3);
  in_flight_.Forget(one);
  in_flight_.Forget(other);
  EXPECT_EQ(in_flight_.List().size(), 1);
}

TEST_F(SolvesInFlightTest, ASolveThatHasEndedIsReplacedAndForgettingItLeavesTheNewOne) {
  const SolvePtr ended = Join(Quick());
  ASSERT_EQ(ended->End().size(), 1);
  const SolvePtr next = Join(Quick());
  EXPECT_NE(next, ended);
  in_flight_.Forget(ended);
  EXPECT_EQ(Join(Quick()), next);
  in_flight_.Forget(next);
  EXPECT_EQ(in_flight_.size(), 0);
  EXPECT_THAT(in_flight_.List(), IsEmpty());
}

TEST_F(SolvesInFlightTest, ThoseWhomAScheduleDoesNotFitShareASolveOfTheirExactRequest) {
  const SolvePtr rounded = Join(Similar(Quick(), 1));
  const std::vector<SolvePtr> exact = in_flight_.JoinExact(
      {WaiterOf(Similar(Quick())), WaiterOf(Similar(Quick())), WaiterOf(OfRank(1, Quick()))});
  ASSERT_EQ(exact.size(), 3);
  EXPECT_EQ(exact[0], exact[1]);
  EXPECT_NE(exact[0], exact[2]);
  EXPECT_NE(exact[0], rounded);
  EXPECT_EQ(Join(Similar(Quick())), exact[0]) << "whoever comes later, too";
  EXPECT_EQ(Join(Similar(Quick(), 1)), rounded);
  in_flight_.Forget(exact[0]);
  EXPECT_EQ(Join(Similar(Quick())), rounded);
}

TEST_F(SolvesInFlightTest, AreFoundByTheirFingerprint) {
  const SolvePtr solve = Join(Quick());
  Join(Quick(1));
  EXPECT_THAT(in_flight_.WithFingerprint(solve->keys().rounded), ElementsAre(solve));
  EXPECT_THAT(in_flight_.WithFingerprint(Fingerprint{}), IsEmpty());
}

TEST_F(SolvesInFlightTest, ListsThoseThatRunFirst) {
  Join(Quick());
  const SolvePtr running = Join(Quick(1));
  running->Started();
  while (running->Describe(Timers::Clock::now()).running_seconds == 0) {
  }
  const std::vector<SolveInFlight> list = in_flight_.List();
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[0].keyed, running->shared_keyed());
  EXPECT_EQ(list[1].running_seconds, 0);
}

}  // namespace
}  // namespace stowage

#include "server/engine/solves/solve_course.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_leases.h"
#include "tests/support/solved_requests.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/engine/new_waiter.h"

namespace stowage {
namespace {

using testing::_;
using testing::IsEmpty;
using Source = Origin::Source;

// The parts that a solve passes on its course, with leases that other servers share.
class SolveCourseTest : public EngineTest {
 protected:
  SolvePtr Begin(const NewWaiter& first) {
    EXPECT_THAT(pending_.Begin(), IsOk());
    SolvePtr solve = in_flight_.Join(first.waiter);
    delivery_.Watch(solve, first.waiter);
    course_.Begin(solve);
    return solve;
  }
  static void WaitFor(SolveState state, const SolvePtr& solve) {
    while (solve->state() != state) std::this_thread::yield();
  }
  void WaitUntilForgotten() {
    while (!in_flight_.List().empty()) std::this_thread::yield();
  }

  FakeLeases leases_{tier_};
  PendingRequests pending_;
  SolvesInFlight in_flight_;
  SolveDelivery delivery_{resources_, pending_, [](const std::vector<WaiterPtr>&) {}};
  SolveCourse course_{resources_, in_flight_, delivery_};
  EngineResources resources_{
      {.threads = 1, .solve_bytes = int64_t{16} << 30, .all_solves_bytes = int64_t{64} << 30},
      &cache_,
      &observer_,
      &leases_};
};

TEST_F(SolveCourseTest, AMissIsSolvedCachedAndForgotten) {
  const NewWaiter waiter(Quick());
  const SolvePtr solve = Begin(waiter);
  const auto result = waiter.listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->origin.source, Source::kSolved);
  EXPECT_EQ(waiter.listener->queued, 1);
  EXPECT_EQ(solve->state(), SolveState::kEnded);
  EXPECT_TRUE(solve->started().has_value());
  EXPECT_THAT(in_flight_.List(), IsEmpty());
  EXPECT_EQ(cache_.memory_stats().entries, 1);
}

TEST_F(SolveCourseTest, AHitInATierEndsIt) {
  ASSERT_THAT(tier_.Put(Solve(Quick())), IsOk());
  tier_.Pause();
  const NewWaiter waiter(Quick());
  const SolvePtr solve = Begin(waiter);
  EXPECT_EQ(solve->state(), SolveState::kLookingUp);
  tier_.Resume();
  const auto result = waiter.listener->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->origin.source, Source::kDiskCache);
  EXPECT_EQ(waiter.listener->queued, 0);
  EXPECT_FALSE(solve->started().has_value());
  EXPECT_EQ(solve->state(), SolveState::kEnded);
}

TEST_F(SolveCourseTest, OneWithoutWaitersIsForgottenWhateverIsQueuedOfIt) {
  std::vector<SolvePtr> solves;
  const NewWaiter busy(Endless());
  solves.push_back(Begin(busy));
  WaitFor(SolveState::kRunning, solves.back());
  const NewWaiter queued(Endless(1));
  solves.push_back(Begin(queued));
  WaitFor(SolveState::kQueued, solves.back());
  tier_.Pause();
  const NewWaiter looking_up(Endless(2));
  solves.push_back(Begin(looking_up));
  for (const SolvePtr& solve : solves) {
    for (const WaiterPtr& waiter : solve->Abort()) {
      delivery_.End(waiter, absl::AbortedError("no longer needed"));
    }
  }
  tier_.Resume();
  for (const NewWaiter* waiter : {&busy, &queued, &looking_up}) {
    EXPECT_THAT(waiter->listener->Wait(), Fails(absl::StatusCode::kAborted, _));
  }
  WaitUntilForgotten();
  for (int i : {1, 2}) EXPECT_FALSE(solves[i]->started().has_value());
}

TEST_F(SolveCourseTest, WhatAnotherServerSolvesWaitsElsewhereForItsAnswer) {
  const CachedAnswerPtr answer = Solve(Quick());
  ASSERT_THAT(leases_.Take(answer->keys.rounded), IsOk());
  const NewWaiter waiter(Quick());
  const SolvePtr solve = Begin(waiter);
  WaitFor(SolveState::kElsewhere, solve);
  ASSERT_THAT(tier_.Put(answer), IsOk());
  EXPECT_EQ(waiter.listener->Wait()->origin.source, Source::kDiskCache);
  EXPECT_FALSE(solve->started().has_value());
  EXPECT_EQ(solve->state(), SolveState::kEnded);
}

TEST_F(SolveCourseTest, WhatAnotherServerGivesUpIsSolvedHere) {
  const NewWaiter waiter(Quick());
  const Fingerprint& key = waiter.waiter->keys().rounded;
  const auto lease = leases_.Take(key);
  ASSERT_THAT(lease, IsOk());
  const SolvePtr solve = Begin(waiter);
  WaitFor(SolveState::kElsewhere, solve);
  ASSERT_THAT(leases_.End(key, lease->token, /*is_done=*/false), IsOk());
  EXPECT_EQ(waiter.listener->Wait()->origin.source, Source::kSolved);
  EXPECT_TRUE(solve->started().has_value());
}

TEST_F(SolveCourseTest, TheServersStopEndsItWithItsBestSchedule) {
  const NewWaiter waiter(Endless());
  const SolvePtr solve = Begin(waiter);
  while (solve->best() == nullptr) std::this_thread::yield();
  resources_.stop_all.request_stop();
  EXPECT_THAT(waiter.listener->Wait(), IsOk());
  EXPECT_EQ(cache_.memory_stats().entries, 0) << "what time cut short is not cached";
}

}  // namespace
}  // namespace stowage

// Two servers with one tier: a request is solved by the one that has its lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "proto/service/origin.h"
#include "server/cache/cache_keys.h"
#include "tests/support/fake_leases.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using Source = Origin::Source;

class LeasesTest : public EngineTest {
 protected:
  // A server: its own cache, and the tier and the leases of all.
  struct Replica {
    Replica(FakeTier& tier, FakeLeases& leases, CountingObserver& observer)
        : cache({2 << 20}, {{"shared", Source::kSharedCache, &tier}}, observer),
          engine({.threads = 2,
                  .solve_bytes = int64_t{16} << 30,
                  .all_solves_bytes = int64_t{64} << 30},
                 &cache, &observer, &leases) {}
    ListenerPtr Send(SolveRequest request, Caller caller = {}) {
      auto listener = std::make_shared<RecordingListener>();
      engine.Solve(std::move(request), std::move(caller), listener);
      return listener;
    }
    AnswerCache cache;
    Engine engine;
  };

  static Source SourceOf(const ListenerPtr& listener) {
    const auto result = listener->Wait();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->origin.source : Source::kMemoryCache;
  }
  void WaitUntilOneAwaits(int64_t waited = 1) {
    while (leases_.lease_stats().waited < waited) std::this_thread::yield();
  }
  // As a server that dies then.
  void TakeElsewhere(const SolveRequest& request) {
    const auto taken = leases_.Take(KeysOf(request).rounded);
    ASSERT_THAT(taken, IsOk());
    ASSERT_EQ(taken->state, SolveLease::State::kTaken);
  }
  static CacheKeys KeysOf(const SolveRequest& request) {
    return CacheKeysOf(request, Instance::Rounded(request));
  }

  FakeLeases leases_{tier_};
  Replica one_{tier_, leases_, observer_};
  Replica other_{tier_, leases_, observer_};
};

TEST_F(LeasesTest, EqualRequestsToTwoServersAreSolvedOnce) {
  std::vector<ListenerPtr> listeners;
  for (int i = 0; i < 100; ++i) {
    listeners.push_back(one_.Send(Slow()));
    listeners.push_back(other_.Send(Slow()));
  }
  int64_t solved = 0;
  for (const ListenerPtr& listener : listeners) solved += SourceOf(listener) == Source::kSolved;
  EXPECT_EQ(solved, 1);
  EXPECT_EQ(leases_.lease_stats().taken, 1);
  EXPECT_EQ(leases_.lease_stats().waited, 1);
}

TEST_F(LeasesTest, WhoWaitsLearnsHowFarTheOtherIs) {
  std::stop_source stop;
  const ListenerPtr first = one_.Send(Endless(), {.stop = stop.get_token()});
  while (one_.engine.stats().solves.running < 1) std::this_thread::yield();
  std::stop_source stop_other;
  const ListenerPtr second = other_.Send(Endless(), {.stop = stop_other.get_token()});
  WaitUntilOneAwaits();
  while (second->progress <= 0) std::this_thread::yield();
  EXPECT_GT(leases_.renewals(), 0);
  // It holds no thread, once the work that asked for the lease has returned.
  while (other_.engine.stats().solves.running > 0) std::this_thread::yield();
  stop_other.request_stop();
  EXPECT_FALSE(second->Wait().ok());
  stop.request_stop();
  EXPECT_FALSE(first->Wait().ok());
}

TEST_F(LeasesTest, OneThatDiesIsReplacedOnceItsLeaseHasRunOut) {
  TakeElsewhere(Quick());
  const ListenerPtr waits = one_.Send(Quick());
  WaitUntilOneAwaits();
  leases_.RunOut();
  EXPECT_EQ(SourceOf(waits), Source::kSolved);
  EXPECT_EQ(leases_.lease_stats().taken_over, 1);
}

TEST_F(LeasesTest, OneWhoseCallersLeaveGivesUpItsLease) {
  std::stop_source stop;
  std::stop_source later;
  const ListenerPtr leaves = one_.Send(Endless(), {.stop = stop.get_token()});
  while (leases_.lease_stats().taken < 1) std::this_thread::yield();
  const ListenerPtr stays = other_.Send(Endless(), {.stop = later.get_token()});
  WaitUntilOneAwaits();
  stop.request_stop();
  EXPECT_FALSE(leaves->Wait().ok());
  while (leases_.lease_stats().taken < 2) std::this_thread::yield();
  later.request_stop();
  EXPECT_FALSE(stays->Wait().ok());
  EXPECT_EQ(leases_.lease_stats().taken_over, 0);
}

// An answer that is not stored is none that others could wait for.
TEST_F(LeasesTest, WhereNothingFitsEachServerFindsThatOut) {
  SolveRequest request = Quick();
  request.platform.memory_bytes = 1;
  for (Replica* replica : {&one_, &other_}) {
    const auto result = replica->Send(request)->Wait();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->answer->outcome, Outcome::kInfeasible);
  }
}

TEST_F(LeasesTest, LeasesThatDoNotWorkCostASolve) {
  leases_.Break(true);
  EXPECT_EQ(SourceOf(one_.Send(Quick(1))), Source::kSolved);
  leases_.Break(false);
  TakeElsewhere(Quick(2));
  const ListenerPtr waits = one_.Send(Quick(2));
  WaitUntilOneAwaits();
  leases_.Break(true);
  EXPECT_EQ(SourceOf(waits), Source::kSolved) << "not while they might work again";
}

TEST_F(LeasesTest, ARenewalThatFailedIsTriedAgain) {
  std::stop_source stop;
  const ListenerPtr solves = one_.Send(Endless(), {.stop = stop.get_token()});
  while (leases_.renewals() < 1) std::this_thread::yield();
  leases_.Break(true);
  while (leases_.failed_renewals() < 1) std::this_thread::yield();
  const int before = leases_.renewals();
  leases_.Break(false);
  while (leases_.renewals() == before) std::this_thread::yield();
  stop.request_stop();
  EXPECT_FALSE(solves->Wait().ok());
}

// Others would only find out the same, each after the same time.
TEST_F(LeasesTest, ASolveThatOutlastsItsLimitIsNotLeftToOthers) {
  one_.engine.SetMaxSolveSeconds(0.05);
  EXPECT_THAT(one_.Send(EndlessWithoutResults())->Wait(),
              Fails(absl::StatusCode::kDeadlineExceeded, testing::_));
  one_.engine.Drain(Clock::now());  // the end of the lease has been written
  const auto lease = leases_.Look(KeysOf(EndlessWithoutResults()).rounded);
  ASSERT_THAT(lease, IsOk());
  EXPECT_EQ(lease->state, SolveLease::State::kDone);
}

TEST_F(LeasesTest, AWaiterHasAScheduleAtTheEndOfItsTimeBudget) {
  SolveRequest request = SlowWithResults();
  TakeElsewhere(request);
  request.options.time_budget_seconds = 0.05;
  const auto result = one_.Send(request)->Wait();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->answer->guarantee, Guarantee::kTimeRanOut);
}

TEST_F(LeasesTest, NobodyWaitsForLongerThanASolveMayTake) {
  TakeElsewhere(Quick());
  one_.engine.SetMaxSolveSeconds(0.05);
  EXPECT_EQ(SourceOf(one_.Send(Quick())), Source::kSolved) << "without the lease";
  EXPECT_EQ(leases_.lease_stats().taken, 1);
}

TEST_F(LeasesTest, AServerThatStopsWaitsNoLonger) {
  TakeElsewhere(EndlessWithoutResults());
  const ListenerPtr waits = one_.Send(EndlessWithoutResults());
  WaitUntilOneAwaits();
  one_.engine.Drain(Clock::now());
  EXPECT_THAT(waits->Wait(), Fails(absl::StatusCode::kUnavailable, testing::_));
}

TEST_F(LeasesTest, WhoseCallersHaveLeftIsForgotten) {
  TakeElsewhere(Quick());
  std::stop_source stop;
  const ListenerPtr leaves = one_.Send(Quick(), {.stop = stop.get_token()});
  WaitUntilOneAwaits();
  stop.request_stop();
  EXPECT_THAT(leaves->Wait(), Fails(absl::StatusCode::kCancelled, testing::_));
  while (one_.engine.stats().requests > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace stowage

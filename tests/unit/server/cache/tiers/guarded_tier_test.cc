#include "server/cache/tiers/guarded_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "absl/algorithm/container.h"
#include "tests/support/counting_observer.h"
#include "tests/support/fake_tier.h"
#include "tests/support/hanging_tier.h"
#include "tests/support/solved_requests.h"
#include "tests/support/status_matchers.h"

namespace stowage::guarded_tier_test {
namespace {

using std::chrono::milliseconds;
using testing::_;
using testing::HasSubstr;

class GuardedTierTest : public testing::Test {
 protected:
  ~GuardedTierTest() override { gate_.Open(); }

  GuardedTier& Guard(milliseconds timeout, CircuitBreaker::Options breaker,
                     size_t max_writes = 100) {
    guard_ = std::make_unique<GuardedTier>(
        std::make_unique<HangingTier>(tier_, gate_),
        GuardOptions{
            .name = "slow", .timeout = timeout, .breaker = breaker, .max_writes = max_writes},
        observer_);
    return *guard_;
  }
  static absl::StatusOr<CachedAnswerPtr> Get(GuardedTier& tier, int stages = 6) {
    return tier.Get(KeysFor(Request(stages)).rounded);
  }

  static constexpr milliseconds kShort{20};
  static constexpr milliseconds kLong{60'000};
  static constexpr CircuitBreaker::Options kNever = {.failures = 1000};
  static constexpr CircuitBreaker::Options kForever = {.failures = 1,
                                                       .pause = std::chrono::hours(1)};

  CountingObserver observer_;
  FakeTier tier_;
  HangingTier::Gate gate_;
  std::unique_ptr<GuardedTier> guard_;
};

TEST_F(GuardedTierTest, WritesBehindAndReadsWhatWasWritten) {
  GuardedTier& guard = Guard(kLong, kNever);
  ASSERT_THAT(guard.Put(Solve(Request(6))), IsOk());
  guard.Flush();
  EXPECT_EQ(guard.stats().entries, 1);
  const auto found = Get(guard);
  ASSERT_THAT(found, IsOk());
  EXPECT_NE(*found, nullptr);
  EXPECT_EQ(guard.guard_stats().dropped_writes, 0);
}

TEST_F(GuardedTierTest, GivesUpOnACallThatHangs) {
  GuardedTier& guard = Guard(kShort, kNever);
  gate_.Close();
  EXPECT_THAT(Get(guard), Fails(absl::StatusCode::kUnavailable, HasSubstr("'slow'")));
  gate_.Open();
}

TEST_F(GuardedTierTest, CountsHowLongReadsWereWaitedFor) {
  GuardedTier& guard = Guard(kShort, kForever);
  gate_.Close();
  EXPECT_THAT(Get(guard), Fails(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(Get(guard), IsOk()) << "skipped";
  gate_.Open();
  const ReadTimes times = guard.guard_stats().read_times;
  EXPECT_EQ(absl::c_accumulate(times.counts, int64_t{0}), 1);
  EXPECT_GE(times.seconds, 0.02);
}

TEST(ReadTimes, BoundsAreIncluded) {
  ReadTimes times;
  for (const double seconds : {0.0, 0.0001, 0.00011, 1.0, 1.1}) times.Add(seconds);
  EXPECT_EQ(times.counts.front(), 2);
  EXPECT_EQ(times.counts[1], 1);
  EXPECT_EQ(times.counts[times.counts.size() - 2], 1);
  EXPECT_EQ(times.counts.back(), 1);
  EXPECT_DOUBLE_EQ(times.seconds, 2.10021);
}

// Nor do its statistics, and whoever writes to it.
TEST_F(GuardedTierTest, IsNotAskedWhileAllReadersHang) {
  GuardedTier& guard = Guard(kShort, kNever);
  gate_.Close();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Get(guard), Fails(absl::StatusCode::kUnavailable, HasSubstr("in time")));
  }
  const auto miss = Get(guard);
  ASSERT_THAT(miss, IsOk());
  EXPECT_EQ(*miss, nullptr);
  EXPECT_EQ(guard.guard_stats().skipped_reads, 1);
  EXPECT_EQ(guard.stats().entries, 0);
  EXPECT_THAT(guard.Put(Solve(Request(6))), IsOk());
  EXPECT_THAT(guard.Remove(KeysFor(Request(7)).rounded),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("in time")));
  gate_.Open();
}

TEST_F(GuardedTierTest, IsLeftAloneAfterFailuresAndTriedAgain) {
  GuardedTier& guard = Guard(kLong, {.failures = 2, .pause = milliseconds(1)});
  tier_.Break();
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Get(guard), Fails(absl::StatusCode::kUnavailable, _));
  EXPECT_TRUE(guard.guard_stats().is_open);
  EXPECT_EQ(guard.guard_stats().opened, 1);
  tier_.Repair();
  while (guard.guard_stats().is_open) (void)Get(guard);
  EXPECT_THAT(guard.Put(Solve(Request(6))), IsOk());
  guard.Flush();
  EXPECT_NE(*Get(guard), nullptr);
  EXPECT_EQ(guard.guard_stats().opened, 1);
}

TEST_F(GuardedTierTest, DropsAndCountsWritesWhileItIsLeftAlone) {
  GuardedTier& guard = Guard(kLong, kForever);
  tier_.Break();
  ASSERT_THAT(guard.Put(Solve(Request(6))), IsOk());
  guard.Flush();
  EXPECT_EQ(observer_.failures, 1) << "whoever put it has gone";
  ASSERT_THAT(guard.Put(Solve(Request(7))), IsOk());
  guard.Flush();
  EXPECT_EQ(observer_.failures, 1);
  EXPECT_EQ(guard.guard_stats().dropped_writes, 1);
  const auto miss = Get(guard);
  ASSERT_THAT(miss, IsOk());
  EXPECT_EQ(*miss, nullptr);
}

TEST_F(GuardedTierTest, HoldsNoMoreWritesThanItMay) {
  GuardedTier& guard = Guard(kLong, kNever, /*max_writes=*/2);
  gate_.Close();
  ASSERT_THAT(guard.Put(Solve(Request(6))), IsOk());
  gate_.AwaitWaiting(1);
  ASSERT_THAT(guard.Put(Solve(Request(7))), IsOk());
  ASSERT_THAT(guard.Put(Solve(Request(8))), IsOk());
  EXPECT_THAT(guard.Put(Solve(Request(9))),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("2 answers to write")));
  EXPECT_EQ(guard.guard_stats().dropped_writes, 1);
  EXPECT_EQ(guard.guard_stats().waiting_writes, 2);
  gate_.Open();
  guard.Flush();
  EXPECT_EQ(guard.stats().entries, 3);
}

TEST_F(GuardedTierTest, WhatIsRemovedIsNotWrittenAfterwards) {
  GuardedTier& guard = Guard(kLong, kNever);
  gate_.Close();
  ASSERT_THAT(guard.Put(Solve(Request(6))), IsOk());
  gate_.AwaitWaiting(1);
  ASSERT_THAT(guard.Put(Solve(Request(7))), IsOk());
  std::jthread opens([this] { gate_.Open(); });
  EXPECT_THAT(guard.Remove(KeysFor(Request(7)).rounded), IsOk());
  EXPECT_EQ(*guard.Remove(KeysFor(Request(6)).rounded), 1);
  guard.Flush();
  EXPECT_EQ(guard.stats().entries, 0);
}

TEST_F(GuardedTierTest, WritesWhatWaitsBeforeItEnds) {
  GuardedTier& guard = Guard(kLong, kNever);
  gate_.Close();
  for (int stages = 6; stages < 10; ++stages) {
    ASSERT_THAT(guard.Put(Solve(Request(stages))), IsOk());
  }
  gate_.Open();
  guard_.reset();
  EXPECT_EQ(tier_.stats().entries, 4);
}

}  // namespace
}  // namespace stowage::guarded_tier_test

#include "server/cache/tiers/guarded_leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "server/cache/tiers/guarded_tier.h"
#include "tests/support/counting_observer.h"
#include "tests/support/fake_leases.h"
#include "tests/support/fake_tier.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using State = SolveLease::State;

// Leases that hang while `store_` is paused, behind a guard that gives up after 20 ms.
class GuardedLeasesTest : public testing::Test {
 protected:
  CountingObserver observer_;
  FakeTier store_;
  FakeLeases leases_{store_};
  GuardedTier guard_{
      std::make_unique<FakeTier>(),
      {.name = "shared", .timeout = std::chrono::milliseconds(20), .breaker = {.failures = 100}},
      observer_};
  GuardedLeases guarded_{guard_, leases_};
  const Fingerprint key_ = NumberedKeys(1).rounded;
};

TEST_F(GuardedLeasesTest, CountWhatFails) {
  EXPECT_THAT(leases_.Take(key_), IsOk());
  leases_.Break(true);
  EXPECT_FALSE(guarded_.Look(key_).ok());
  EXPECT_FALSE(guarded_.Renew(key_, 1, 0.5).ok());
  EXPECT_FALSE(guarded_.End(key_, 1, true).ok());
  EXPECT_EQ(guarded_.lease_stats().failures, 3);
  EXPECT_EQ(guarded_.lease_stats().taken, 1);
}

TEST_F(GuardedLeasesTest, OneThatIsTakenTooLateIsGivenUp) {
  store_.Pause();
  EXPECT_THAT(guarded_.Take(key_), Fails(absl::StatusCode::kUnavailable, testing::_));
  store_.Resume();
  while (leases_.lease_stats().taken < 1) std::this_thread::yield();
  while (leases_.Look(key_)->state != State::kFree) std::this_thread::yield();
}

}  // namespace
}  // namespace stowage

#include "solver/base/time/rate_limit.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;
using Time = RateLimit::Clock::time_point;

TEST(RateLimit, AllowsABurstAndThenTheRate) {
  RateLimit limit(/*per_second=*/10, /*burst_seconds=*/1);
  Time now{};
  int allowed = 0;
  while (!limit.Refuses("a", now).has_value()) ++allowed;
  EXPECT_EQ(allowed, 11);  // a second's worth ahead, and the one that is due
  const double wait = *limit.Refuses("a", now);
  EXPECT_NEAR(wait, 0.1, 1e-6);
  EXPECT_TRUE(limit.Refuses("a", now + milliseconds(99)).has_value());
  EXPECT_FALSE(limit.Refuses("a", now + milliseconds(101)).has_value());
  EXPECT_TRUE(limit.Refuses("a", now + milliseconds(102)).has_value());
}

TEST(RateLimit, RefusedEventsDoNotCount) {
  RateLimit limit(1, 0);
  Time now{};
  EXPECT_FALSE(limit.Refuses("a", now).has_value());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limit.Refuses("a", now).has_value());
  EXPECT_FALSE(limit.Refuses("a", now + milliseconds(1001)).has_value());
}

TEST(RateLimit, AnEventMayCountAsSeveral) {
  RateLimit limit(10, 0);
  Time now{};
  EXPECT_FALSE(limit.Refuses("a", now, std::nullopt, 5).has_value());
  EXPECT_NEAR(*limit.Refuses("a", now), 0.5, 1e-6);
  EXPECT_FALSE(limit.Refuses("a", now + milliseconds(501)).has_value());
}

TEST(RateLimit, ClientsDoNotShareTheirRates) {
  RateLimit limit(1, 0);
  EXPECT_FALSE(limit.Refuses("a", Time{}).has_value());
  EXPECT_TRUE(limit.Refuses("a", Time{}).has_value());
  EXPECT_FALSE(limit.Refuses("b", Time{}).has_value());
}

TEST(RateLimit, ZeroIsNoLimitAndAnOwnRateReplacesTheCommonOne) {
  RateLimit limit(0, 0);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(limit.Refuses("a", Time{}).has_value());
  EXPECT_FALSE(limit.Refuses("b", Time{}, 1).has_value());
  EXPECT_TRUE(limit.Refuses("b", Time{}, 1).has_value());
  limit.SetRate(1);
  EXPECT_FALSE(limit.Refuses("a", Time{}).has_value());
  EXPECT_TRUE(limit.Refuses("a", Time{}).has_value());
  EXPECT_FALSE(limit.Refuses("a", Time{}, 0).has_value());
}

TEST(RateLimit, WhatIsChargedLaterDelaysTheNextEvents) {
  RateLimit limit(1, 20);
  EXPECT_FALSE(limit.Refuses("a", Time{}).has_value());
  limit.Charge("a", Time{}, std::nullopt, 15);
  limit.Charge("a", Time{}, std::nullopt, 9);
  EXPECT_EQ(limit.Refuses("a", Time{}), 5);
  // One event counts as no more than the burst.
  limit.Charge("c", Time{}, std::nullopt, 1000);
  EXPECT_FALSE(limit.Refuses("c", Time{}).has_value());
  EXPECT_EQ(limit.Refuses("c", Time{}), 1);
  limit.Charge("b", Time{}, 0, 9);  // no limit
  EXPECT_FALSE(limit.Refuses("b", Time{}).has_value());
}

// Clients beyond the bound are forgotten only once they are within their rate again.
TEST(RateLimit, AFloodOfClientsFreesNobody) {
  RateLimit limit(1, 0);
  EXPECT_FALSE(limit.Refuses("a", Time{}).has_value());
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(limit.Refuses(absl::StrCat("flood", i), Time{}).has_value());
  }
  EXPECT_TRUE(limit.Refuses("a", Time{}).has_value());
}

}  // namespace
}  // namespace stowage

#include "server/cache/tiers/circuit_breaker.h"

#include <gtest/gtest.h>

#include <chrono>

namespace stowage {
namespace {

using std::chrono::seconds;

class CircuitBreakerTest : public testing::Test {
 protected:
  void Fail(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(breaker_.Allows(now_));
      breaker_.Failed(now_);
    }
  }

  CircuitBreaker breaker_{{.failures = 3, .pause = seconds(5)}};
  CircuitBreaker::Time now_{seconds(1000)};
};

TEST_F(CircuitBreakerTest, OpensAfterFailuresInARow) {
  Fail(2);
  breaker_.Succeeded();
  Fail(2);
  EXPECT_FALSE(breaker_.is_open()) << "a success was between them";
  Fail(1);
  EXPECT_TRUE(breaker_.is_open());
  EXPECT_FALSE(breaker_.Allows(now_));
  EXPECT_EQ(breaker_.opened(), 1);
}

TEST_F(CircuitBreakerTest, AllowsOneTrialAfterThePause) {
  Fail(3);
  now_ += seconds(4);
  EXPECT_FALSE(breaker_.Allows(now_));
  now_ += seconds(1);
  EXPECT_TRUE(breaker_.Allows(now_));
  EXPECT_FALSE(breaker_.Allows(now_)) << "the trial is under way";
  EXPECT_TRUE(breaker_.is_open());
}

TEST_F(CircuitBreakerTest, ClosesWhenTheTrialSucceeds) {
  Fail(3);
  now_ += seconds(5);
  EXPECT_TRUE(breaker_.Allows(now_));
  breaker_.Succeeded();
  EXPECT_FALSE(breaker_.is_open());
  Fail(2);
  EXPECT_FALSE(breaker_.is_open()) << "what failed before is forgotten";
}

TEST_F(CircuitBreakerTest, WaitsAgainWhenTheTrialFails) {
  Fail(3);
  now_ += seconds(5);
  Fail(1);
  EXPECT_FALSE(breaker_.Allows(now_ + seconds(4)));
  EXPECT_TRUE(breaker_.Allows(now_ + seconds(5)));
  EXPECT_EQ(breaker_.opened(), 1);
}

TEST_F(CircuitBreakerTest, CallsThatBeganBeforeItOpenedSayNothing) {
  Fail(3);
  breaker_.Succeeded();
  EXPECT_TRUE(breaker_.is_open());
  now_ += seconds(4);
  breaker_.Failed(now_);
  EXPECT_TRUE(breaker_.Allows(now_ + seconds(1))) << "the pause is as it was";
}

}  // namespace
}  // namespace stowage

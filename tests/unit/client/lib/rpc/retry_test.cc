#include "client/lib/rpc/retry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "client/lib/rpc/failure.h"

namespace stowage {
namespace {

absl::Status FullFor(double advice) {
  absl::Status status = absl::ResourceExhaustedError("the queue is full");
  SetAdvisedPause(advice, &status);
  return status;
}

TEST(IsRetryable, IsTrueWhereALaterAttemptMaySucceed) {
  EXPECT_TRUE(IsRetryable(absl::UnavailableError("draining")));
  EXPECT_TRUE(IsRetryable(FullFor(1)));
  EXPECT_FALSE(IsRetryable(absl::ResourceExhaustedError("too large for any queue")));
  EXPECT_FALSE(IsRetryable(absl::InvalidArgumentError("")));
  EXPECT_FALSE(IsRetryable(absl::DeadlineExceededError("")));
  EXPECT_FALSE(IsRetryable(absl::InternalError("")));
  EXPECT_FALSE(IsRetryable(absl::OkStatus()));
}

TEST(Backoff, DoublesUpToTwoSecondsAndNeverPausesLessThanHalf) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(seed);
    double most = 0.1;
    for (int i = 0; i < 10; ++i) {
      const double pause = backoff.NextSeconds(absl::UnavailableError(""));
      EXPECT_GE(pause, most / 2);
      EXPECT_LE(pause, most);
      most = std::min(2.0, 2 * most);
    }
  }
}

TEST(Backoff, FollowsTheAdvisedPauseWithJitter) {
  double least = 100;
  double most = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const double pause = Backoff(seed).NextSeconds(FullFor(5));
    least = std::min(least, pause);
    most = std::max(most, pause);
  }
  EXPECT_GE(least, 5);
  EXPECT_LE(most, 7.5);
  EXPECT_GT(most - least, 1);
}

}  // namespace
}  // namespace stowage

#include "client/lib/rpc/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stowage {
namespace {

absl::Status Full() { return absl::ResourceExhaustedError("the queue is full"); }

TEST(Failure, TravelsWithTheStatus) {
  absl::Status status = Full();
  SetAdvisedPause(1.5, &status);
  SetCause(FailureCause::kCallersLimit, &status);
  SetObstacle(Obstacle::kProxy, &status);
  SetReason("QUEUE_FULL", &status);
  SetNotSent(&status);
  const std::vector<FieldViolation> violations = {{"a", "is 1: no; b: is 2"}, {"c", ""}};
  SetViolations(violations, &status);
  for (const absl::Status& each : {status, WithMessage(status, "b"), WithRequestId(status, "i")}) {
    EXPECT_EQ(each.code(), status.code());
    EXPECT_EQ(AdvisedPause(each), 1.5);
    EXPECT_EQ(CauseOf(each), FailureCause::kCallersLimit);
    EXPECT_EQ(ObstacleOf(each), Obstacle::kProxy);
    EXPECT_EQ(ReasonOf(each), "QUEUE_FULL");
    EXPECT_TRUE(WasNotSent(each));
    EXPECT_EQ(ViolationsOf(each), violations);
  }
}

TEST(Failure, IsUnknownOfOtherStatuses) {
  EXPECT_EQ(AdvisedPause(Full()), std::nullopt);
  EXPECT_EQ(CauseOf(Full()), FailureCause::kOther);
  EXPECT_EQ(ObstacleOf(Full()), Obstacle::kNone);
  EXPECT_EQ(ReasonOf(Full()), "");
  EXPECT_FALSE(WasNotSent(Full()));
  EXPECT_THAT(ViolationsOf(Full()), testing::IsEmpty());
}

TEST(Failure, KeepsTheIdOfItsCallInOtherWords) {
  const absl::Status status = WithRequestId(Full(), "1f2e3d4c-17");
  EXPECT_EQ(status.message(), "the queue is full (request 1f2e3d4c-17)");
  EXPECT_EQ(WithMessage(status, "busy").message(), "busy (request 1f2e3d4c-17)");
}

}  // namespace
}  // namespace stowage

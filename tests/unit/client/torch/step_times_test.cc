#include "client/torch/step_times.h"

#include <gtest/gtest.h>

#include "gmock/gmock.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SecondsInAStep, AreTheDevicesWhereTheHostIsAhead) {
  EXPECT_THAT(SecondsInAStep({{1, 4}, {1, 2}, {1, 8}}), ElementsAre(4, 2, 8));
}

TEST(SecondsInAStep, AreTheHostsWhereTheDeviceWaits) {
  EXPECT_THAT(SecondsInAStep({{4, 1}, {2, 1}, {8, 0}}), ElementsAre(4, 2, 8));
}

TEST(SecondsInAStep, UseUpTheLeadOfTheHost) {
  // Enqueued at 1, 5, 9, 13; ended at 7, 8, 9, 13: the lead of 6 lasts for two operations.
  EXPECT_THAT(SecondsInAStep({{1, 7}, {4, 1}, {4, 1}, {4, 1}}), ElementsAre(7, 1, 1, 4));
}

TEST(SecondsInAStep, OfNoOperationsAreNone) { EXPECT_THAT(SecondsInAStep({}), IsEmpty()); }

}  // namespace
}  // namespace stowage

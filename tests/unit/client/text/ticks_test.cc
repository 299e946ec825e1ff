#include "client/text/ticks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace stowage {
namespace {

using testing::ElementsAre;

TEST(RoundTicks, AreOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_THAT(RoundTicks(0, 1, 6).labels, ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(RoundTicks(12, 36, 6).labels, ElementsAre("15", "20", "25", "30", "35"));
  EXPECT_THAT(RoundTicks(0, 100, 7).labels, ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(RoundTicks(1, 1.04, 5).labels, ElementsAre("1.00", "1.01", "1.02", "1.03", "1.04"));
  EXPECT_THAT(RoundTicks(0, 3e6, 4).labels, ElementsAre("0", "1000000", "2000000", "3000000"));
}

TEST(RoundTicks, AreTheNearestNumbersToTheirLabels) {
  const Ticks ticks = RoundTicks(0, 1, 11);
  ASSERT_EQ(ticks.values.size(), 11U);
  for (size_t i = 0; i < ticks.values.size(); ++i) {
    EXPECT_EQ(ticks.values[i], std::stod(ticks.labels[i]));
  }
}

TEST(RoundTicks, HaveNoNegativeZero) {
  EXPECT_THAT(RoundTicks(-0.1, 0.1, 3).labels, ElementsAre("-0.1", "0.0", "0.1"));
  EXPECT_THAT(RoundTicks(-0.04, 1, 3).labels, ElementsAre("0.0", "0.5", "1.0"));
}

}  // namespace
}  // namespace stowage

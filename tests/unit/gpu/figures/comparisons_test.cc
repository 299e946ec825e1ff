#include "tests/gpu/figures/comparisons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ErrorsOf, AreAbsoluteAndRelativeToThePrediction) {
  const Errors errors = ErrorsOf({{10, 11}, {100, 70}, {1, 1}});
  EXPECT_NEAR(errors.mean, 0.4 / 3, 1e-12);
  EXPECT_NEAR(errors.worst, 0.3, 1e-12);
}

TEST(ErrorsOf, AreZeroWhereThereIsNothingToCompare) {
  EXPECT_EQ(ErrorsOf({}).mean, 0);
  EXPECT_EQ(ErrorsOf({}).worst, 0);
}

TEST(FrontOf, LeavesOutWhatIsNoFasterInMoreMemory) {
  EXPECT_THAT(
      FrontOf({{30, 5}, {10, 2}, {20, 2}, {20, 4}, {40, 5}, {50, 6}}),
      ElementsAre(RatedPoint{10, 2}, RatedPoint{20, 4}, RatedPoint{30, 5}, RatedPoint{50, 6}));
  EXPECT_THAT(FrontOf({}), IsEmpty());
}

TEST(FastestWithin, TakesTheFastestThatFits) {
  const std::vector<RatedPoint> points = {{10, 2}, {20, 9}, {30, 5}};
  EXPECT_EQ(FastestWithin(points, 40), (RatedPoint{20, 9}));
  EXPECT_EQ(FastestWithin(points, 10), (RatedPoint{10, 2}));
  EXPECT_EQ(FastestWithin(points, 9), std::nullopt);
}

TEST(LeastMemoryAt, CountsTheOverheadOfASample) {
  const std::vector<RatedPoint> points = {{10, 50}, {20, 80}, {30, 100}};
  EXPECT_EQ(LeastMemoryAt(points, 100, 0), 30);
  EXPECT_EQ(LeastMemoryAt(points, 100, 0.2), 30);  // 80 a second is 25 % more a sample
  EXPECT_EQ(LeastMemoryAt(points, 100, 0.25), 20);
  EXPECT_EQ(LeastMemoryAt(points, 100, 1), 10);
  EXPECT_EQ(LeastMemoryAt(points, 101, 0), std::nullopt);
}

TEST(CompareAtEqualMemory, HoldsEveryPointOfTheOthersFrontAgainstOurBest) {
  const std::vector<RatedPoint> others = {{100, 10}, {150, 9}, {200, 20}, {50, 1}};
  const auto comparisons = CompareAtEqualMemory({{101, 12}, {180, 19}, {240, 40}}, others, 0.01);
  ASSERT_EQ(comparisons.size(), 3U);
  EXPECT_EQ(comparisons[0].ours, std::nullopt);
  EXPECT_EQ(comparisons[1].ours, (RatedPoint{101, 12}));
  EXPECT_EQ(comparisons[2].ours, (RatedPoint{180, 19}));
  const Gains gains = GainsOf(comparisons);
  EXPECT_EQ(gains.compared, 2);
  EXPECT_EQ(gains.missing, 1);
  EXPECT_NEAR(gains.least, -0.05, 1e-12);
  EXPECT_NEAR(gains.most, 0.2, 1e-12);
  EXPECT_NEAR(gains.mean, 0.075, 1e-12);
}

TEST(GainsOf, AreNoneWhereNothingIsCompared) {
  const Gains gains = GainsOf({{{10, 1}, std::nullopt}});
  EXPECT_EQ(gains.compared, 0);
  EXPECT_EQ(gains.missing, 1);
  EXPECT_EQ(gains.mean, 0);
}

}  // namespace
}  // namespace stowage

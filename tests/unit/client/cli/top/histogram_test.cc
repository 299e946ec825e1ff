// The expected quantiles are those of histogram_quantile() as Prometheus documents it, by hand.
#include "client/cli/top/histogram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(Histogram, InterpolatesInsideABucket) {
  const Histogram histogram = {{1, 10}, {2, 30}, {5, 40}, {INFINITY, 40}};
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0.5), 1.5);  // rank 20 of 10..30
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0.9), 3.8);  // rank 36 of 30..40
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0.25), 1);   // rank 10, a bound
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0.1), 0.4);  // the first begins at 0
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 1), 5);
}

TEST(Histogram, ReturnsTheLastFiniteBoundForQuantilesBeyondIt) {
  EXPECT_EQ(HistogramQuantile({{1, 1}, {2, 1}, {INFINITY, 10}}, 0.5), 2);
}

TEST(Histogram, SkipsEmptyBuckets) {
  const Histogram histogram = {{1, 0}, {2, 0}, {4, 8}, {INFINITY, 8}};
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0.5), 3);
  EXPECT_DOUBLE_EQ(*HistogramQuantile(histogram, 0), 1);  // and is not 0 divided by 0
}

TEST(Histogram, DoesNotInterpolateFromZeroDownwards) {
  EXPECT_EQ(HistogramQuantile({{-1, 5}, {1, 10}, {INFINITY, 10}}, 0.2), -1);
}

TEST(Histogram, HasNoQuantilesWithoutObservations) {
  EXPECT_EQ(HistogramQuantile({}, 0.5), std::nullopt);
  EXPECT_EQ(HistogramQuantile({{1, 0}, {INFINITY, 0}}, 0.5), std::nullopt);
  EXPECT_EQ(HistogramQuantile({{INFINITY, 4}}, 0.5), std::nullopt);
  EXPECT_EQ(HistogramQuantile({{1, 4}, {2, 8}}, 0.5), std::nullopt);  // no last bucket
}

TEST(Histogram, IsFoundByItsLabelsAndSortedByItsBounds) {
  const auto samples = ParseMetricsText(
      "wait_bucket{method=\"Solve\",le=\"+Inf\"} 9\n"
      "wait_bucket{method=\"Solve\",le=\"10\"} 7\n"
      "wait_bucket{method=\"Solve\",le=\"2.5\"} 4\n"
      "wait_bucket{method=\"Other\",le=\"2.5\"} 100\n"
      "wait_bucket{le=\"2.5\"} 200\n");
  ASSERT_THAT(samples, IsOk());
  const Histogram histogram = HistogramOf(*samples, "wait", {{"method", "Solve"}});
  ASSERT_EQ(histogram.size(), 3);
  EXPECT_EQ(histogram[0].upper, 2.5);
  EXPECT_EQ(histogram[0].count, 4);
  EXPECT_EQ(histogram[1].upper, 10);
  EXPECT_TRUE(std::isinf(histogram[2].upper));
  EXPECT_TRUE(HistogramOf(*samples, "wait", {{"method", "None"}}).empty());
}

TEST(Histogram, CountsObservationsBetweenTwoScrapes) {
  const Histogram before = {{1, 10}, {2, 30}, {INFINITY, 30}};
  const Histogram now = {{1, 10}, {2, 34}, {INFINITY, 40}};
  const Histogram between = Between(before, now);
  EXPECT_EQ(between[0].count, 0);
  EXPECT_EQ(between[1].count, 4);
  EXPECT_EQ(between[2].count, 10);
  EXPECT_EQ(Between({}, now)[1].count, 34);
  EXPECT_TRUE(Between(before, {}).empty());
}

}  // namespace
}  // namespace stowage

#include "solver/base/quantile.h"

#include <gtest/gtest.h>

namespace stowage {
namespace {

TEST(QuantileOf, IsTheLeastValueThatTheShareDoesNotExceed) {
  const std::vector<double> sorted = {1, 2, 3, 4};
  EXPECT_EQ(QuantileOf(sorted, 0), 1);
  EXPECT_EQ(QuantileOf(sorted, 0.5), 2);
  EXPECT_EQ(QuantileOf(sorted, 0.51), 3);
  EXPECT_EQ(QuantileOf(sorted, 0.75), 3);
  EXPECT_EQ(QuantileOf(sorted, 1), 4);
  EXPECT_EQ(QuantileOf({7}, 0.99), 7);
}

TEST(MedianOf, IsTheMiddleOfUnsortedValues) {
  EXPECT_EQ(MedianOf({3, 1, 2}), 2);
  EXPECT_EQ(MedianOf({4, 1, 3, 2}), 3) << "the upper one";
  EXPECT_EQ(MedianOf({5}), 5);
}

}  // namespace
}  // namespace stowage

#include "solver/algorithms/kept_operators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

OperatorCost Saves(std::string name, double seconds, int64_t output_bytes) {
  return {.name = std::move(name),
          .seconds = seconds,
          .kept = true,
          .output_bytes = output_bytes,
          .saves = true,
          .saves_argument = true};
}

struct Cost {
  int64_t bytes = 0;
  double seconds = 0;
};

// Of one choice, forwards: what a rerun runs up to the last operator at which it fills a place.
Cost CostOf(const std::vector<OperatorCost>& costs, uint32_t kept) {
  const auto keeps = [&](size_t i) { return ((kept >> i) & 1) != 0; };
  size_t end = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (keeps(i) ? costs[i].saves_argument : costs[i].saves) end = i + 1;
  }
  Cost cost;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (keeps(i)) {
      cost.bytes += costs[i].inner_bytes + (i + 1 < end ? costs[i].output_bytes : 0);
    } else if (i < end) {
      cost.seconds += costs[i].seconds;
    }
  }
  return cost;
}

TEST(ChooseKept, KeepsWhatIsDearAndSmall) {
  const std::vector<OperatorCost> costs = {Saves("norm", 1, 10), Saves("linear", 9, 10),
                                           Saves("gelu", 1, 40), Saves("linear", 8, 10),
                                           Saves("dropout", 1, 10)};
  const std::vector<KeptChoice> choices = ChooseKept(costs, 20, 1);
  ASSERT_THAT(choices, SizeIs(1));
  // The rerun ends before the outputs of the last one.
  EXPECT_EQ(choices[0].name, "keep 1 of 2 linear+dropout");
  EXPECT_THAT(choices[0].operators, ElementsAre(1, 4));
  EXPECT_EQ(ChooseKept(costs, 40, 1)[0].name, "keep linear+dropout");
}

TEST(ChooseKept, ChoosesNothingWhereNothingCanBeKept) {
  EXPECT_THAT(ChooseKept({}, 100, 3), SizeIs(0));
  std::vector<OperatorCost> views = {Saves("view", 1, 10), Saves("view", 1, 10)};
  for (OperatorCost& view : views) view.kept = false;
  EXPECT_THAT(ChooseKept(views, 100, 3), SizeIs(0));
}

TEST(ChooseKept, IsTheQuickestWithinItsBytes) {
  std::mt19937 random(17);
  const auto below = [&random](int most) { return static_cast<int>(random() % most); };
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<OperatorCost> costs;
    for (int i = 0; i < 1 + below(9); ++i) {
      OperatorCost cost = Saves("any", below(10), 1 + below(20));
      cost.kept = below(4) > 0;
      cost.inner_bytes = below(3) == 0 ? below(10) : 0;
      cost.saves = below(3) > 0;
      cost.saves_argument = cost.saves && below(2) == 0;
      if (!cost.kept) cost.output_bytes = cost.inner_bytes = 0;
      costs.push_back(cost);
    }
    const int64_t most_bytes = 1 + below(100);
    constexpr size_t kCount = 3;
    const std::vector<KeptChoice> choices = ChooseKept(costs, most_bytes, kCount);
    EXPECT_LE(choices.size(), kCount);
    for (const KeptChoice& choice : choices) {
      uint32_t kept = 0;
      for (const size_t number : choice.operators) kept |= uint32_t{1} << number;
      const Cost cost = CostOf(costs, kept);
      EXPECT_EQ(choice.kept_bytes, cost.bytes);
      EXPECT_EQ(choice.rerun_seconds, cost.seconds);
      EXPECT_LT(choice.kept_bytes, most_bytes);
      double least = std::numeric_limits<double>::infinity();
      for (uint32_t other = 0; other < uint32_t{1} << costs.size(); ++other) {
        const bool can = [&] {
          for (size_t i = 0; i < costs.size(); ++i) {
            if (((other >> i) & 1) != 0 && !costs[i].kept) return false;
          }
          return true;
        }();
        const Cost others = CostOf(costs, other);
        if (can && others.bytes <= choice.kept_bytes) least = std::min(least, others.seconds);
      }
      EXPECT_EQ(choice.rerun_seconds, least);
    }
  }
}

}  // namespace
}  // namespace stowage

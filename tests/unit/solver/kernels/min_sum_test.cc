#include "solver/kernels/min_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "solver/kernels/min_plus.h"

namespace stowage {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<double> Random(size_t count, std::mt19937* random) {
  std::vector<double> values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    values.push_back((*random)() % 5 == 0 ? kNever : static_cast<double>((*random)() % 1000) / 8);
  }
  return values;
}

// Every target, every length up to some vectors, zero to five terms.
TEST(LowerToTerms, IsTheLeastSumOnEveryTarget) {
  std::mt19937 random(7);
  // SetMinPlusTarget() selects the target of this kernel, too.
  for (const std::string& target : MinPlusTargets()) {
    ASSERT_TRUE(SetMinPlusTarget(target));
    for (size_t count = 0; count <= 130; ++count) {
      std::vector<std::vector<double>> arrays;
      std::vector<SumTerm> terms;
      for (size_t i = 0; i < 2 * (count % 6); ++i) arrays.push_back(Random(count, &random));
      for (size_t i = 0; i < count % 6; ++i) {
        terms.push_back(
            {arrays[2 * i].data(), arrays[2 * i + 1].data(), static_cast<double>(i) / 4});
      }
      std::vector<double> least = Random(count, &random);
      std::vector<double> expected = least;
      for (const SumTerm& term : terms) {
        for (size_t k = 0; k < count; ++k) {
          expected[k] = std::min(expected[k], term.base + term.a[k] + term.b[k]);
        }
      }
      LowerToTerms(terms, count, least.data());
      EXPECT_EQ(least, expected) << target << ", " << count;
    }
  }
  SetMinPlusTarget("best");
}

}  // namespace
}  // namespace stowage

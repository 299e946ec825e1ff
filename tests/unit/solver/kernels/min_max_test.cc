// Compares the vectorized loop with a plain one.
#include "solver/kernels/min_max.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "solver/kernels/min_plus.h"

namespace stowage {
namespace {

template <typename T>
class LowerLeastOf : public testing::Test {
 protected:
  void TearDown() override { SetMinPlusTarget("best"); }

  T Next() { return static_cast<T>(bits_() % 1000) * scale_; }
  std::vector<T> Numbers(size_t count) {
    std::vector<T> numbers(count);
    for (T& number : numbers) number = Next();
    return numbers;
  }

 private:
  std::mt19937 bits_{1};
  const T scale_ = sizeof(T) == 8 ? T(1) << (sizeof(T) * 8 - 20) : 1000;  // past 32 bits
};

using Types = testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(LowerLeastOf, Types);

// SetMinPlusTarget() selects the target of this kernel, too.
TYPED_TEST(LowerLeastOf, EveryTargetDoesWhatAPlainLoopDoes) {
  for (const std::string& target : MinPlusTargets()) {
    ASSERT_TRUE(SetMinPlusTarget(target));
    for (size_t count = 0; count <= 200; ++count) {
      SplitNeed<TypeParam> split = {this->Next(), this->Next(), this->Next()};
      const std::vector<TypeParam> rest = this->Numbers(count);
      const std::vector<TypeParam> gradient = this->Numbers(count);
      std::vector<TypeParam> least = this->Numbers(count + 1);  // the last must stay
      std::vector<TypeParam> expected = least;
      for (size_t i = 0; i < count; ++i) {
        expected[i] = std::min(
            expected[i], std::max({rest[i] + split.kept, gradient[i] + split.sweep, split.front}));
      }
      split.rest = rest.data();
      split.gradient = gradient.data();
      LowerLeast(split, count, least.data());
      ASSERT_EQ(least, expected) << target << ", " << count;
    }
  }
}

}  // namespace
}  // namespace stowage

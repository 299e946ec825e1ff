#include "client/torch/stages/first_output.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FirstOutput, IsComparedNumberByNumber) {
  FirstOutput first;
  first.Keep({at::tensor({1.0F, 2.0F, kNan}), at::tensor({3.0F})});
  EXPECT_THAT(first.Compare({at::tensor({1.0F, 2.0F, kNan}), at::tensor({3.0F})}, 0), IsOk());
  EXPECT_THAT(first.Compare({at::tensor({1.0F, 2.5F, kNan}), at::tensor({4.0F})}, 0),
              Fails(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("recomputed, 2 of 4 numbers of its output differ from its first "
                              "run's by up to 1: declare it no_recompute")));
}

TEST(FirstOutput, DiffersByMoreThanTheTolerance) {
  FirstOutput first;
  first.Keep({at::tensor({100.0F})});
  EXPECT_THAT(first.Compare({at::tensor({100.5F})}, 0.01), IsOk());
  EXPECT_FALSE(first.Compare({at::tensor({102.5F})}, 0.01).ok());
}

TEST(FirstOutput, DiffersWhollyInAnotherShape) {
  FirstOutput first;
  first.Keep({at::ones({2, 3})});
  EXPECT_THAT(first.Compare({at::ones({3, 2})}, 0),
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("6 of 6 numbers")));
}

// A later stage may work in place on what it was given.
TEST(FirstOutput, IsACopy) {
  const at::Tensor output = at::zeros({2});
  FirstOutput first;
  first.Keep({output});
  output.fill_(1);
  EXPECT_FALSE(first.Compare({output}, 0).ok());
}

}  // namespace
}  // namespace stowage

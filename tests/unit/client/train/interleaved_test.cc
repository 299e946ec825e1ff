#include "client/train/interleaved.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "client/torch/profile/plain_step.h"
#include "client/train/segments.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two trainings of a transformer with dropout.
class InterleavedTest : public testing::Test {
 protected:
  InterleavedTest()
      : trainings_(MakeTrainings()), plain_(trainings_.front()), other_(trainings_.back()) {
    plain_.step = [this] { return Plain(plain_); };
  }

  static std::list<InterleavedTraining> MakeTrainings() {
    std::list<InterleavedTraining> trainings;
    for (const char* name : {"plain", "other"}) {
      at::manual_seed(1);
      absl::StatusOr<Network> network = MakeNetwork(
          "gpt2", {.batch = 2, .layers = 3, .width = 64, .sequence = 32, .vocabulary = 100});
      EXPECT_THAT(network, IsOk());
      trainings.emplace_back(name, *std::move(network));
    }
    return trainings;
  }

  static absl::StatusOr<at::Tensor> Plain(const InterleavedTraining& training) {
    const Network& network = training.network();
    return PlainStep(network.stages, network.input, network.loss);
  }

  std::list<InterleavedTraining> trainings_;
  InterleavedTraining& plain_;
  InterleavedTraining& other_;
};

TEST_F(InterleavedTest, RunsAStepOfEachInTurnBeginningWithTheNext) {
  std::vector<std::string> order;
  for (InterleavedTraining& training : trainings_) {
    training.step = [&order, &training] {
      order.push_back(training.samples.name);
      return Plain(training);
    };
  }
  ASSERT_THAT(RunInterleaved(&trainings_, {.unmeasured = 1, .rounds = 2}), IsOk());
  EXPECT_THAT(order, ElementsAre("plain", "other", "other", "plain", "plain", "other"));
  EXPECT_EQ(plain_.samples.name, "plain");
  EXPECT_EQ(plain_.samples.seconds.size(), 2);
  EXPECT_EQ(plain_.samples.losses.size(), 3);
}

TEST_F(InterleavedTest, ComputesTheSameNumbersInSegmentsWithinLessMemory) {
  for (const int count : {1, 2, 4, 8}) {
    SCOPED_TRACE(count);
    plain_.samples = {.name = "plain"};
    other_.samples = {.name = "other"};
    other_.step = [this, count] { return SegmentsStep(other_.network(), count); };
    ASSERT_THAT(RunInterleaved(&trainings_, {.rounds = 2}), IsOk());
    EXPECT_EQ(other_.samples.losses, plain_.samples.losses);
    if (count > 1) {
      EXPECT_LT(other_.samples.peak_bytes, plain_.samples.peak_bytes);
    }
  }
}

TEST_F(InterleavedTest, GoesOnWithoutATrainingThatDoesNotFit) {
  int steps = 0;
  other_.step = [&]() -> absl::StatusOr<at::Tensor> {
    ++steps;
    return absl::ResourceExhaustedError("full");
  };
  ASSERT_THAT(RunInterleaved(&trainings_, {.rounds = 2}), IsOk());
  EXPECT_EQ(steps, 1);
  EXPECT_THAT(other_.samples.status, Fails(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(plain_.samples.seconds.size(), 2);
}

TEST_F(InterleavedTest, EndsAtAnyOtherErrorWithTheTrainingsName) {
  other_.step = []() -> absl::StatusOr<at::Tensor> { return absl::InternalError("broken"); };
  EXPECT_THAT(RunInterleaved(&trainings_, {}),
              Fails(absl::StatusCode::kInternal, HasSubstr("other: broken")));
}

}  // namespace
}  // namespace stowage

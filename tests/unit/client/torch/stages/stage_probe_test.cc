#include "client/torch/stages/stage_probe.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

at::Tensor SumOf(const at::Tensor& output) { return output.sum(); }

TEST(StageProbe, KnowsWhatIsKeptElsewhere) {
  const at::Tensor mask = at::ones({2, 4});
  std::vector<TorchStage> network =
      StagesOf(torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4)));
  const TorchStage masked{.name = "mask",
                          .forward = [mask](const at::Tensor& input) { return input * mask; }};
  network.insert(network.begin() + 1, masked);
  TorchStages stages(network, {});
  const StageProbe probe(&stages);
  stages.Feed(at::ones({2, 4}), SumOf);
  ASSERT_THAT(stages.Begin(nullptr), IsOk());
  for (int l = 1; l <= 3; ++l) ASSERT_THAT(stages.Forward({.stage = l}), IsOk());
  EXPECT_FALSE(probe.shared(1));
  EXPECT_TRUE(probe.shared(2));
  EXPECT_FALSE(probe.shared(3));
}

TEST(StageProbe, FindsTheSameWorkInStagesThatComputeTheSameOfOtherNumbers) {
  torch::nn::Sequential network;
  for (const int64_t outputs : {4, 4, 4, 8}) {
    network->push_back(torch::nn::Linear(4, outputs));
  }
  TorchStages stages(StagesOf(network), {});
  const StageProbe probe(&stages);
  stages.Feed(at::ones({2, 4}), SumOf);
  ASSERT_THAT(stages.Begin(nullptr), IsOk());
  for (int l = 1; l <= 4; ++l) ASSERT_THAT(stages.Forward({.stage = l}), IsOk());
  EXPECT_EQ(probe.WorkOf(2), probe.WorkOf(3));
  EXPECT_NE(probe.WorkOf(1), probe.WorkOf(2));  // the network's input takes no gradient
  EXPECT_NE(probe.WorkOf(3), probe.WorkOf(4));
  EXPECT_THAT(probe.WorkOf(4), HasSubstr(" Float [8, 4]"));
}

}  // namespace
}  // namespace stowage

#include "client/torch/stages/torch_stage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::HasSubstr;

TEST(TorchStage, IsMadeOfEachChildOfASequential) {
  torch::nn::Sequential sequential({{"first", torch::nn::AnyModule(torch::nn::Linear(4, 3))},
                                    {"second", torch::nn::AnyModule(torch::nn::Linear(3, 2))}});
  const at::Tensor input = at::randn({2, 4});
  sequential->forward(input).square().sum().backward();
  std::vector<at::Tensor> expected;
  for (const at::Tensor& parameter : sequential->parameters()) {
    expected.push_back(parameter.grad().clone());
    parameter.grad().zero_();
  }
  Training training{.stages = StagesOf(sequential), .input = input};
  training.loss = [](const at::Tensor& output) { return output.square().sum(); };
  ASSERT_EQ(training.stages.size(), 2);
  EXPECT_EQ(training.stages[1].name, "second");
  ScheduledTraining trained(training, EqualChain(2), Ops("C1 D2 S3 B3 S1 S2 B2 B1"));
  ASSERT_THAT(trained.Step(), IsOk());
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : sequential->parameters()) {
    gradients.push_back(parameter.grad());
  }
  EXPECT_EQ(Difference(gradients, expected), "");
}

TEST(CheckInput, NamesASideInputThatTakesAGradient) {
  const at::Tensor mask = at::ones({2}).requires_grad_();
  EXPECT_THAT(CheckInput({at::ones({2}), {{"mask", mask}}}, at::kCPU),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("side input mask requires a gradient, which none has: detach() it")));
  EXPECT_THAT(CheckInput({at::ones({2}), {{"mask", mask.detach()}}}, at::kCPU), IsOk());
}

}  // namespace
}  // namespace stowage

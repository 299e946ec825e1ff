#include "client/torch/profile/device_budget.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace stowage {
namespace {

constexpr int64_t kNumberBytes = 4;

TEST(BudgetOf, TakesOffWhatIsNotAnActivation) {
  torch::nn::Linear frozen(10, 10);
  torch::nn::Linear trained(10, 9);
  for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  const TorchStages stages({{.name = "frozen", .module = frozen.ptr()},
                            {.name = "trained", .module = trained.ptr()},
                            {.name = "again", .module = trained.ptr()}},
                           {});
  const MemoryBudget budget = BudgetOf(
      stages,
      {.device_bytes = 100'000, .context_bytes = 500, .optimizer_copies = 2, .margin = 0.01});
  EXPECT_EQ(budget.weight_bytes, (110 + 99) * kNumberBytes);
  EXPECT_EQ(budget.gradient_bytes, 99 * kNumberBytes);
  EXPECT_EQ(budget.optimizer_bytes, 2 * 99 * kNumberBytes);
  EXPECT_EQ(budget.margin_bytes, 1000);
  EXPECT_EQ(budget.activation_bytes(), 100'000 - 500 - 1000 - (110 + 4 * 99) * kNumberBytes);
}

// A recomputation reads the running statistics that the first run read, from a copy.
TEST(BudgetOf, CountsBuffersWithTheirCopies) {
  const torch::nn::BatchNorm1d norm(10);
  const TorchStages stages({{.name = "norm", .module = norm.ptr()}}, {});
  constexpr int64_t kBuffers = 2 * 10 * kNumberBytes + 8;  // mean, variance and a counter
  EXPECT_EQ(BudgetOf(stages, {.device_bytes = 100'000}).weight_bytes,
            2 * 10 * kNumberBytes + 2 * kBuffers);
}

}  // namespace
}  // namespace stowage

#include "client/torch/native/saved_tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

namespace stowage {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Doubles its input. Its backward runs another one of its own inside, `depth` times.
struct Nested : torch::autograd::Function<Nested> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, int64_t depth) {
    context->saved_data["depth"] = depth;
    return 2 * input;
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const int64_t depth = context->saved_data["depth"].toInt();
    if (depth == 0) return {2 * gradients[0], {}};
    const at::AutoGradMode grad(true);
    const at::Tensor inner = at::ones({1}).requires_grad_();
    Nested::apply(inner, depth - 1).backward();
    return {inner.grad() * gradients[0], {}};
  }
};

// LibTorch hands backwards that are nested more than 60 deep to threads of its engine.
TEST(SavedTensorScope, LeavesAnEngineWithThreadsAfterABackwardOfAnother) {
  const at::Tensor plain = at::ones({1}).requires_grad_();
  (2 * plain).backward();
  const SavedTensorScope scope(
      [](const at::Tensor& tensor) { return [tensor = tensor.detach()] { return tensor; }; });
  const at::Tensor input = at::ones({1}).requires_grad_();
  Nested::apply(input, 100).backward();
  EXPECT_EQ(input.grad().item<float>(), 2);
}

}  // namespace
}  // namespace stowage

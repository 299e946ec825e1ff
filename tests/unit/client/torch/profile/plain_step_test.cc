#include "client/torch/profile/plain_step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "client/torch/base/memory_meter.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

// The caller accumulates: what the gradients hold already is lost unless it is restored.
TEST(StepPeakBytes, RestoresGradientsAfterAStepThatThrows) {
  const Training training = ConvolutionTraining();
  const TorchStages stages(training.stages, {});
  std::vector<at::Tensor> before;
  for (at::Tensor& parameter : stages.Parameters()) {
    parameter.mutable_grad() = at::ones_like(parameter);
    before.push_back(at::ones_like(parameter));
  }
  const absl::StatusOr<int64_t> peak =
      StepPeakBytes(stages, training.input, &HostMemory(), [&]() -> absl::Status {
        stages.Parameters().front().mutable_grad().fill_(7);
        throw std::bad_alloc();
      });
  EXPECT_EQ(peak.status().code(), absl::StatusCode::kResourceExhausted);
  std::vector<at::Tensor> after;
  for (const at::Tensor& parameter : stages.Parameters()) after.push_back(parameter.grad());
  EXPECT_EQ(Difference(after, before), "");
}

}  // namespace
}  // namespace stowage

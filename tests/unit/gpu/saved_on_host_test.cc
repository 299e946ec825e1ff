#include "tests/gpu/saved_on_host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "client/torch/base/memory_meter.h"
#include "tests/gpu/session.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

TEST(SavedOnHost, TrainsAlikeInLessMemory) {
  MemoryMeter& meter = MemoryOf(c10::kCPU);
  auto device = OpenDevice("cpu", {});
  ASSERT_THAT(device, IsOk());
  at::manual_seed(1);
  auto network = MakeNetwork(
      "gpt2", {.batch = 2, .layers = 4, .width = 64, .sequence = 32, .vocabulary = 100});
  ASSERT_THAT(network, IsOk());
  Session plain(*network, &*device, &meter, {.steps = 1, .seed = 2});
  Session on_host(SavedOnHost(*network, c10::kCPU), &*device, &meter, {.steps = 1, .seed = 2});

  const auto expected = plain.TrainWithoutSchedule();
  ASSERT_THAT(expected, IsOk());
  const std::vector<at::Tensor> gradients = plain.Gradients();
  const auto measured = on_host.TrainWithoutSchedule();
  ASSERT_THAT(measured, IsOk());
  EXPECT_EQ(measured->loss, expected->loss);
  EXPECT_EQ(Difference(on_host.Gradients(), gradients), "");
  EXPECT_FALSE(gradients.empty());
  EXPECT_LT(measured->peak_bytes, expected->peak_bytes / 2);
}

}  // namespace
}  // namespace stowage

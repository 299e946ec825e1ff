#include "client/torch/base/memory_meter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace stowage {
namespace {

TEST(HostMemory, FailsBeyondItsLimitAndGivesBack) {
  HostMemoryMeter& memory = HostMemory();
  const int64_t before = memory.LiveBytes();
  memory.SetLimit(before + 1000);
  {
    const at::Tensor some = at::empty({100});
    EXPECT_EQ(memory.LiveBytes(), before + 400);
    EXPECT_THROW(at::empty({200}), c10::OutOfMemoryError);
    EXPECT_EQ(memory.LiveBytes(), before + 400);
  }
  memory.SetLimit(INT64_MAX);
  EXPECT_EQ(memory.LiveBytes(), before);
  memory.ResetPeak();
  at::empty({250});
  EXPECT_EQ(memory.PeakBytes(), before + 1000);
}

}  // namespace
}  // namespace stowage

#include "client/torch/profile/link_profiler.h"

#include <gtest/gtest.h>

#include "client/agent/host_device.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(ProfileLink, FindsTheSpeedOfAThrottledLink) {
  HostDevice device({.offload_bytes_per_second = 1e8,
                     .prefetch_bytes_per_second = 2e8,
                     .latency_seconds = 0.002});
  const auto link = ProfileLink(&device, {.bytes = 1 << 20, .repeats = 3});
  ASSERT_THAT(link, IsOk());
  // A busy machine makes copies slower, never faster.
  const auto seconds = [&](double rate) {
    return link->transfer_latency_seconds + (1 << 20) / rate;
  };
  EXPECT_GE(seconds(link->offload_bytes_per_second), 0.002 + (1 << 20) / 1e8);
  EXPECT_GE(seconds(*link->prefetch_bytes_per_second), 0.002 + (1 << 20) / 2e8);
  EXPECT_GE(link->transfer_latency_seconds, 0.002);
}

}  // namespace
}  // namespace stowage

// The contract of Device on CudaDevice, under the double of CUDA's runtime.
#include <gtest/gtest.h>

#include "tests/conformance/device_contract.h"
#include "tests/support/cuda_device_on_double.h"

namespace stowage {
namespace {

std::vector<DeviceKind> Seeds() {
  constexpr uint64_t kSeeds = 8;
  std::vector<DeviceKind> kinds;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool has_pools : {false, true}) {
      kinds.push_back({(has_pools ? "pool_" : "no_pool_") + std::to_string(seed),
                       [=]() -> std::unique_ptr<Device> {
                         return std::make_unique<CudaDeviceOnDouble>(
                             cuda_double::Options{.seed = seed, .has_pools = has_pools});
                       }});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryDevice, testing::ValuesIn(Seeds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace stowage

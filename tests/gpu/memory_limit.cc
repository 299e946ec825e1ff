#include "tests/gpu/memory_limit.h"

#include <algorithm>

#include "client/torch/base/memory_meter.h"

#ifdef STOWAGE_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stowage {
namespace {

struct Limit {
  int64_t bytes = 0;
  int64_t device_bytes = 0;
};

// CUDA's allocator has a limit as a share of the device, the host's in bytes.
void Set(c10::Device device, const Limit& limit) {
#ifdef STOWAGE_TORCH_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    const double share = static_cast<double>(limit.bytes) / static_cast<double>(limit.device_bytes);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), device.index());
    return;
  }
#endif
  (void)device;
  HostMemory().SetLimit(limit.bytes < limit.device_bytes ? limit.bytes : INT64_MAX);
}

}  // namespace

MemoryLimit::MemoryLimit(const TorchDevice& device, int64_t bytes) : device_(device.torch) {
  Set(device_, {bytes, device.memory_bytes});
}

MemoryLimit::~MemoryLimit() { Set(device_, {1, 1}); }

}  // namespace stowage

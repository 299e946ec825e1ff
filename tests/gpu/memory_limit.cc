#include "tests/gpu/memory_limit.h"

#include <algorithm>

#include "client/torch/memory_meter.h"

#ifdef STOWAGE_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stowage {
namespace {

// `bytes` of `all`; the host's allocator takes any number.
void Set(c10::Device device, int64_t bytes, int64_t all) {
#ifdef STOWAGE_TORCH_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    const double share = static_cast<double>(bytes) / static_cast<double>(all);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), device.index());
    return;
  }
#endif
  (void)device;
  HostMemory().SetLimit(bytes < all ? bytes : INT64_MAX);
}

}  // namespace

MemoryLimit::MemoryLimit(const TrainDevice& device, int64_t bytes) : device_(device.torch) {
  Set(device_, bytes, device.memory_bytes);
}

MemoryLimit::~MemoryLimit() { Set(device_, 1, 1); }

}  // namespace stowage

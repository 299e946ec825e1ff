// Limits the memory of LibTorch's allocator.
#ifndef STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_
#define STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_

#include <cstdint>

#include "client/torch/base/torch_device.h"

namespace stowage {

// While in scope, an allocation of LibTorch beyond `bytes` fails like on a full device. Caches and
// fragmentation count. Empties the caches at both ends. May throw LibTorch's exceptions. Not
// thread-safe.
class MemoryLimit {
 public:
  MemoryLimit(const TorchDevice& device, int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  const c10::Device device_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_

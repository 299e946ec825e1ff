// A device made smaller than it is.
#ifndef STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_
#define STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_

#include <cstdint>

#include "client/train/train_device.h"

namespace stowage {

// What LibTorch's allocator may take while this is there: beyond it an allocation fails as on a
// device that is full, caches and fragmentation included. Begins and ends with empty caches. May
// throw, as LibTorch. Not thread-safe.
class MemoryLimit {
 public:
  MemoryLimit(const TrainDevice& device, int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  const c10::Device device_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_MEMORY_LIMIT_H_

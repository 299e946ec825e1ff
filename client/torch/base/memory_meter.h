// Measures the memory that LibTorch's allocator has allocated.
#ifndef STOWAGE_CLIENT_TORCH_BASE_MEMORY_METER_H_
#define STOWAGE_CLIENT_TORCH_BASE_MEMORY_METER_H_

#include <c10/core/Device.h>

#include <cstdint>

namespace stowage {

class MemoryMeter {
 public:
  virtual ~MemoryMeter() = default;

  virtual int64_t LiveBytes() const = 0;
  virtual int64_t PeakBytes() const = 0;  // the most bytes live since the last ResetPeak()
  virtual void ResetPeak() = 0;           // to LiveBytes()
  // Sizes are rounded up to a multiple of it, in bytes.
  virtual int64_t Granularity() const = 0;
  // Returns freed memory that the process keeps, so that other programs have it. Takes
  // milliseconds.
  virtual void ReturnFreed() = 0;
};

// The host's meter. The first call of HostMemory() replaces LibTorch's CPU allocator by one that
// counts exact bytes from then on. An allocation beyond `limit_bytes` fails like on a full device.
// Thread-safe.
class HostMemoryMeter : public MemoryMeter {
 public:
  virtual void SetLimit(int64_t limit_bytes) = 0;  // INT64_MAX: none
};
HostMemoryMeter& HostMemory();

// The meter of a CUDA device if `device` is one and LibTorch has CUDA, else HostMemory().
MemoryMeter& MemoryOf(c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_BASE_MEMORY_METER_H_

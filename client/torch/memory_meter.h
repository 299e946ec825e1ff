// How many bytes LibTorch's allocator has given out.
#ifndef STOWAGE_CLIENT_TORCH_MEMORY_METER_H_
#define STOWAGE_CLIENT_TORCH_MEMORY_METER_H_

#include <c10/core/Device.h>

#include <cstdint>

namespace stowage {

class MemoryMeter {
 public:
  virtual ~MemoryMeter() = default;

  virtual int64_t LiveBytes() const = 0;
  virtual int64_t PeakBytes() const = 0;  // the most that was live since the last ResetPeak()
  virtual void ResetPeak() = 0;           // to what is live
  // What a size is rounded up to.
  virtual int64_t Granularity() const = 0;
};

// Of the host: puts an allocator of its own in the place of LibTorch's the first time it is called,
// and counts what is allocated from then on, to the byte. Beyond `limit_bytes` an allocation fails
// as on a device that is full. Thread-safe.
class HostMemoryMeter : public MemoryMeter {
 public:
  virtual void SetLimit(int64_t limit_bytes) = 0;  // INT64_MAX: none
};
HostMemoryMeter& HostMemory();

// Of a device: that of a CUDA device where there is such a thing, else HostMemory().
MemoryMeter& MemoryOf(c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_MEMORY_METER_H_

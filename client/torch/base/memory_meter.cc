#include "client/torch/base/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef STOWAGE_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>

#include <map>
#endif

namespace stowage {
namespace {

// LibTorch's own alignment; also the room before every block, which holds its size.
constexpr size_t kAlignment = 64;

class HostMeter final : public HostMemoryMeter {
 public:
  int64_t LiveBytes() const override { return live_; }
  int64_t PeakBytes() const override { return peak_; }
  void ResetPeak() override { peak_ = live_.load(); }
  int64_t Granularity() const override { return 1; }
  void ReturnFreed() override {
#ifdef __GLIBC__
    malloc_trim(/*pad=*/0);
#endif
  }
  void SetLimit(int64_t limit_bytes) override { limit_ = limit_bytes; }

  void* Allocate(size_t bytes) {
    if (bytes == 0) return nullptr;
    const auto size = static_cast<int64_t>(bytes);
    // Adds first and takes back on failure, so that concurrent allocations cannot pass the limit.
    const int64_t live = live_ += size;
    const bool fits = live <= limit_;
    const size_t whole = (kAlignment + bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* const block =
        fits ? static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)) : nullptr;
    if (block == nullptr) {
      live_ -= size;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: tried to allocate ", bytes,
                       " bytes beside ", live - size, " live",
                       fits ? "" : " of " + std::to_string(limit_));
    }
    // An atomic maximum.
    int64_t peak = peak_;
    while (peak < live && !peak_.compare_exchange_weak(peak, live)) {
    }
    *reinterpret_cast<int64_t*>(block) = size;
    return block + kAlignment;
  }

  void Free(void* data) {
    if (data == nullptr) return;
    auto* const block = static_cast<std::byte*>(data) - kAlignment;
    live_ -= *reinterpret_cast<int64_t*>(block);
    std::free(block);
  }

 private:
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
  std::atomic<int64_t> limit_ = INT64_MAX;
};

// Never destroyed: tensors may outlive static objects.
HostMeter& Meter() {
  static HostMeter* const meter = new HostMeter();
  return *meter;
}

void FreeMetered(void* data) { Meter().Free(data); }

// LibTorch's versions differ in whether allocate() is const and whether copy_data() exists; of the
// functions below, those that match the version override.
class MeteredAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const {  // NOLINT(modernize-use-override)
    void* const data = Meter().Allocate(bytes);
    return {data, data, &FreeMetered, c10::Device(c10::kCPU)};
  }
  c10::DataPtr allocate(size_t bytes) {  // NOLINT(modernize-use-override)
    return static_cast<const MeteredAllocator*>(this)->allocate(bytes);
  }
  void copy_data(void* to, const void* from,
                 size_t bytes) const {  // NOLINT(modernize-use-override)
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreeMetered; }
};

#ifdef STOWAGE_TORCH_CUDA
class CudaMeter final : public MemoryMeter {
 private:
  auto Bytes() const {
    constexpr size_t kAllPools = 0;  // StatType::AGGREGATE
    return c10::cuda::CUDACachingAllocator::getDeviceStats(index_).allocated_bytes[kAllPools];
  }

 public:
  explicit CudaMeter(c10::DeviceIndex index) : index_(index) {}
  int64_t LiveBytes() const override { return Bytes().current; }
  int64_t PeakBytes() const override { return Bytes().peak; }
  void ResetPeak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(index_); }
  int64_t Granularity() const override { return 512; }
  void ReturnFreed() override {}  // the caching allocator gives it to the next step

 private:
  const c10::DeviceIndex index_;
};
#endif

}  // namespace

HostMemoryMeter& HostMemory() {
  // Blocks of the old allocator keep its deleter, so they are freed correctly later.
  static const bool installed = [] {
    c10::SetCPUAllocator(new MeteredAllocator(), /*priority=*/1);
    return true;
  }();
  (void)installed;
  return Meter();
}

MemoryMeter& MemoryOf(c10::Device device) {
#ifdef STOWAGE_TORCH_CUDA
  if (device.is_cuda()) {
    static auto* const meters = new std::map<c10::DeviceIndex, CudaMeter>();
    return meters->try_emplace(device.index(), device.index()).first->second;
  }
#endif
  (void)device;
  return HostMemory();
}

}  // namespace stowage

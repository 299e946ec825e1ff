// HashStages whose computations are kernels of the double of CUDA's runtime.
#ifndef STOWAGE_TESTS_SUPPORT_KERNEL_STAGES_H_
#define STOWAGE_TESTS_SUPPORT_KERNEL_STAGES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "client/agent/stages.h"
#include "tests/support/cuda_double/cuda_double.h"
#include "tests/support/hash_stages.h"

namespace stowage {

// In the agent's arena.
class KernelStages final : public ArenaStages {
 public:
  KernelStages(const Chain& chain, uint64_t seed) : stages_(chain, seed) {}

  absl::Status Begin(DeviceSpan input, void* stream) override;
  absl::Status Forward(const ForwardCall& call, const ForwardSpans& spans) override;
  absl::Status Backward(const BackwardCall& call, const BackwardSpans& spans) override;
  absl::Status End(DeviceSpan input_gradient, void* stream) override;

  const Digest& digest() const { return stages_.digest(); }  // once the device is idle

 private:
  HashStages stages_;
};

// With memory of their own, as LibTorch's caching allocator gives it out: a block that is freed is
// given out again at once, since the compute stream orders its old work before the new. Another
// stream that uses it is to wait.
class CachingKernelStages final : public FrameworkStages {
 public:
  CachingKernelStages(const Chain& chain, uint64_t seed)
      : chain_(chain),
        stages_(chain, seed),
        values_(static_cast<size_t>(chain.length()) + 2),
        gradients_(values_.size()),
        saved_(values_.size()) {}
  ~CachingKernelStages() override;
  CachingKernelStages(const CachingKernelStages&) = delete;
  CachingKernelStages& operator=(const CachingKernelStages&) = delete;

  absl::Status Begin(void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(void* stream) override;
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override;
  absl::Status Release(int l) override;
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override;
  void Abandon() override;

  const Digest& digest() const { return stages_.digest(); }

 private:
  absl::Status Allocate(DeviceSpan* span, int64_t bytes);
  void Free(DeviceSpan* span);
  DeviceSpan Input(int l) const;

  const Chain& chain_;
  KernelStages stages_;
  std::vector<DeviceSpan> values_;
  std::vector<DeviceSpan> gradients_;
  std::vector<bool> saved_;
  std::vector<DeviceSpan> blocks_;  // of the device, of their whole sizes
  std::vector<DeviceSpan> free_;    // the last that was freed comes last
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_KERNEL_STAGES_H_

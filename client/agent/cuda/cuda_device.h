// A CUDA device as the agent sees it: three streams of one GPU. Runtime API only, no kernels: plain
// C++ that any host compiler builds. Built where the CUDA toolkit is found.
#ifndef STOWAGE_CLIENT_AGENT_CUDA_CUDA_DEVICE_H_
#define STOWAGE_CLIENT_AGENT_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/device.h"

namespace stowage {

struct CudaOptions {
  int ordinal = 0;  // which GPU, as CUDA counts them
  // The stream of computations, of a framework that brings its own; borrowed. Null: one is made.
  cudaStream_t compute_stream = nullptr;
};

// How many GPUs there are; 0 also where there is no driver.
int CudaDeviceCount();

// Device memory comes from the device's pool, where it has one. Pinned memory lies on the NUMA node
// of the GPU where the system tells. Streams do not synchronize with the default stream. Makes its
// GPU current for the calling thread.
class CudaDevice final : public Device {
 public:
  // Errors: NOT_FOUND where there is no such GPU, with what CUDA says.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaOptions& options = {});
  ~CudaDevice() override;  // waits for what is enqueued
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  cudaStream_t stream(Queue queue) const { return streams_[static_cast<size_t>(queue)]; }

  absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) override;
  absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) override;
  void Free(DeviceSpan span) override;
  void FreePinned(PinnedSpan span) override;
  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override;
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override;
  absl::Status Launch(Queue queue, Work work) override;
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes, Work work) override;
  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override;
  absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) override;
  absl::Status Synchronize() override;

 private:
  class CudaEvent;
  class EventPool;
  class Origin;

  explicit CudaDevice(const CudaOptions& options) : options_(options) {}
  absl::Status Open();
  absl::Status MoveOrigin();

  const CudaOptions options_;
  bool has_pool_ = false;
  int numa_node_ = -1;  // of the GPU; -1: unknown
  std::array<cudaStream_t, kQueues> streams_ = {};
  std::shared_ptr<EventPool> events_;
  std::shared_ptr<const Origin> origin_;  // what times are measured from
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_CUDA_CUDA_DEVICE_H_

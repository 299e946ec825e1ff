// A CUDA device for the agent: each queue is a stream of one GPU. Uses only the runtime API,
// without kernels, so that any C++ compiler builds it. Built where CMake finds CUDA
// (deploy/cmake/cuda.cmake).
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
  int ordinal = 0;  // CUDA's number of the GPU
  // The compute queue, borrowed from a framework. Null: the device creates its own stream.
  cudaStream_t compute_stream = nullptr;
};

// The number of GPUs; 0 also without a driver.
int CudaDeviceCount();

// Device memory comes from the GPU's memory pool if it has one. Pinned memory is on the GPU's NUMA
// node if the system reports it. Own streams do not synchronize with the default stream. Calls may
// make the GPU current for the calling thread; Launch() always does.
class CudaDevice final : public Device {
 public:
  // Errors: NOT_FOUND for an ordinal without a GPU, with CUDA's message.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaOptions& options = {});
  ~CudaDevice() override;  // waits for enqueued work
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // The queue's stream, for code that enqueues on it directly.
  cudaStream_t stream(Queue queue) const { return streams_[static_cast<size_t>(queue)]; }

  absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) override;
  absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) override;
  void Free(DeviceSpan span) override;
  void FreePinned(PinnedSpan span) override;
  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override;
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override;
  absl::Status Launch(Queue queue, DeviceWork work) override;
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                          DeviceWork work) override;
  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override;
  absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) override;
  absl::Status Synchronize() override;

 private:
  class CudaEvent;
  class EventPool;
  class Origin;

  explicit CudaDevice(const CudaOptions& options) : options_(options) {}
  absl::Status Open();  // the rest of construction, which may fail
  // Sets or renews origin_. Requires: the compute stream is idle.
  absl::Status MoveOrigin();

  const CudaOptions options_;
  bool has_pool_ = false;                           // whether cudaMallocAsync() works
  int numa_node_ = -1;                              // of the GPU; -1: unknown
  std::array<cudaStream_t, kQueues> streams_ = {};  // the compute stream may be borrowed
  std::shared_ptr<EventPool> events_;               // shared with events that outlive the device
  std::shared_ptr<const Origin> origin_;            // what new events measure their time from
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_CUDA_CUDA_DEVICE_H_

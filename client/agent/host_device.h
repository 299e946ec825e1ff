// A device in host memory with one thread per queue, for CPU training and tests. It can limit the
// speed of copies to simulate an accelerator's link.
#ifndef STOWAGE_CLIENT_AGENT_HOST_DEVICE_H_
#define STOWAGE_CLIENT_AGENT_HOST_DEVICE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "client/agent/device.h"
#include "solver/base/mutex.h"

namespace stowage {

// A lower bound on the time of copies; 0: no bound.
struct LinkSpeed {
  double offload_bytes_per_second = 0;
  double prefetch_bytes_per_second = 0;
  double latency_seconds = 0;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const LinkSpeed& link = {});
  ~HostDevice() override;  // waits for enqueued work and joins the threads

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
  class HostEvent;
  using Task = absl::AnyInvocable<void()>;
  struct QueueState {
    std::deque<Task> tasks;
    bool busy = false;  // its thread is running a task
    CondVar wake;       // wakes its thread: a task was added, an event happened, or shutdown
  };

  void Enqueue(Queue queue, Task task);  // wakes the queue's thread
  // Both spans are host memory; the direction decides which rate applies.
  absl::Status CopyBytes(Queue queue, Direction direction, const std::byte* from, std::byte* to,
                         int64_t bytes);
  void Run(size_t queue);          // a thread's main loop
  void RunWork(DeviceWork& work);  // skips the work after an error, and stores its error
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LinkSpeed link_;  // immutable
  const std::chrono::steady_clock::time_point created_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  CondVar idle_;  // a queue may have become idle
  std::array<QueueState, kQueues> queues_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // the first since the last Synchronize()
  bool shutdown_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::thread, kQueues> threads_;  // written only by the constructor
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_HOST_DEVICE_H_

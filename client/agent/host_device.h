// A device made of host memory and a thread a queue: what tests and CPU training run on, and a
// rehearsal of a real one, with the speed of its link where that is asked for.
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

// How long copies take at least; 0: as long as they take.
struct LinkSpeed {
  double offload_bytes_per_second = 0;
  double prefetch_bytes_per_second = 0;
  double latency_seconds = 0;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const LinkSpeed& link = {});
  ~HostDevice() override;  // waits for what is enqueued, joins the threads

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
  class HostEvent;
  using Task = absl::AnyInvocable<void()>;
  struct Line {
    std::deque<Task> tasks;
    bool busy = false;
    CondVar wake;  // its thread: a task came, an event happened, or all is over
  };

  void Enqueue(Queue queue, Task task);
  absl::Status CopyBytes(Queue queue, Direction direction, const std::byte* from, std::byte* to,
                         int64_t bytes);
  void Run(size_t queue);
  void RunWork(Work& work);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LinkSpeed link_;
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  CondVar idle_;  // a queue has become empty
  std::array<Line, kQueues> lines_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // the first since the last Synchronize()
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::thread, kQueues> threads_;  // written by the constructor only
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_HOST_DEVICE_H_

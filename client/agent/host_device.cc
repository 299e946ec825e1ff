// One thread for each queue, all under one mutex. Invariants:
// - A queue is idle when it has no tasks and is not busy; Synchronize() waits until all are.
// - After an error, tasks of Launch() are skipped until Synchronize() takes the error. Events still
//   happen, so that no queue waits forever.
// - Tasks run without the mutex; those of Record() and Wait() lock it themselves.
#include "client/agent/host_device.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr std::align_val_t kAlignment{256};

// Null if there is no memory. Not initialized: pages are mapped at the first write.
std::byte* NewBytes(int64_t bytes) {
  return static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(bytes), kAlignment, std::nothrow));
}

void DeleteBytes(std::byte* data) { ::operator delete(data, kAlignment); }

absl::Status OutOfMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", FormatBytes(bytes), " of memory left"));
}

}  // namespace

class HostDevice::HostEvent final : public Event {
 public:
  double Seconds() const override { return seconds; }

  // Guarded by the device's mutex until the event has happened, then constant.
  bool happened = false;
  double seconds = 0;
};

HostDevice::HostDevice(const LinkSpeed& link) : link_(link) {
  for (size_t queue = 0; queue < kQueues; ++queue) {
    threads_[queue] = std::thread([this, queue] { Run(queue); });
  }
}

// A thread exits only with an empty queue, so that enqueued work runs first.
HostDevice::~HostDevice() {
  {
    MutexLock lock(mutex_);
    shutdown_ = true;
    for (QueueState& state : queues_) state.wake.Signal();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<DeviceSpan> HostDevice::Allocate(int64_t bytes) {
  std::byte* const data = NewBytes(bytes);
  if (data == nullptr) return OutOfMemory(bytes);
  return DeviceSpan{data, bytes};
}

absl::StatusOr<PinnedSpan> HostDevice::AllocatePinned(int64_t bytes) {
  std::byte* const data = NewBytes(bytes);
  if (data == nullptr) return OutOfMemory(bytes);
  return PinnedSpan{data, bytes};
}

void HostDevice::Free(DeviceSpan span) { DeleteBytes(span.data); }
void HostDevice::FreePinned(PinnedSpan span) { DeleteBytes(span.data); }

absl::Status HostDevice::Copy(Queue queue, DeviceSpan from, PinnedSpan to) {
  return CopyBytes(queue, Direction::kToHost, from.data, to.data, from.bytes);
}

absl::Status HostDevice::Copy(Queue queue, PinnedSpan from, DeviceSpan to) {
  return CopyBytes(queue, Direction::kToDevice, from.data, to.data, from.bytes);
}

absl::Status HostDevice::CopyBytes(Queue queue, Direction direction, const std::byte* from,
                                   std::byte* to, int64_t bytes) {
  return LaunchCopy(queue, direction, bytes, [from, to, bytes](void*) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  });
}

// A copy that is faster than the link sleeps for the rest of its time.
absl::Status HostDevice::LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                                    DeviceWork work) {
  const double rate = direction == Direction::kToHost ? link_.offload_bytes_per_second
                                                      : link_.prefetch_bytes_per_second;
  double seconds = link_.latency_seconds;
  if (rate > 0) seconds += static_cast<double>(bytes) / rate;
  return Launch(queue, [seconds, work = std::move(work)](void* stream) mutable {
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status = work(stream);
    if (seconds > 0) std::this_thread::sleep_until(begin + std::chrono::duration<double>(seconds));
    return status;
  });
}

absl::Status HostDevice::Launch(Queue queue, DeviceWork work) {
  Enqueue(queue, [this, work = std::move(work)]() mutable { RunWork(work); });
  return absl::OkStatus();
}

void HostDevice::RunWork(DeviceWork& work) {
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return;
  }
  // Without the lock: other queues run meanwhile.
  const absl::Status status = work(nullptr);
  if (status.ok()) return;
  MutexLock lock(mutex_);
  if (error_.ok()) error_ = status;
}

absl::StatusOr<std::shared_ptr<const Event>> HostDevice::Record(Queue queue) {
  auto event = std::make_shared<HostEvent>();
  Enqueue(queue, [this, event] {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - created_;
    MutexLock lock(mutex_);
    event->seconds = since.count();
    event->happened = true;
    // Any queue may be waiting for it.
    for (QueueState& state : queues_) state.wake.Signal();
  });
  return event;
}

// The task blocks the queue's thread. The event's own queue cannot deadlock with it: work is
// enqueued in program order, so every event is enqueued before the waits for it.
absl::Status HostDevice::Wait(Queue queue, const std::shared_ptr<const Event>& event) {
  Enqueue(queue, [this, queue, host_event = std::static_pointer_cast<const HostEvent>(event)] {
    MutexLock lock(mutex_);
    CondVar& wake = queues_[static_cast<size_t>(queue)].wake;
    while (!host_event->happened) wake.Wait(mutex_);
  });
  return absl::OkStatus();
}

absl::Status HostDevice::Synchronize() {
  MutexLock lock(mutex_);
  while (!Idle()) idle_.Wait(mutex_);
  return std::exchange(error_, absl::OkStatus());
}

bool HostDevice::Idle() const {
  for (const QueueState& state : queues_) {
    if (state.busy || !state.tasks.empty()) return false;
  }
  return true;
}

void HostDevice::Enqueue(Queue queue, Task task) {
  MutexLock lock(mutex_);
  QueueState& state = queues_[static_cast<size_t>(queue)];
  state.tasks.push_back(std::move(task));
  state.wake.Signal();
}

// The loop of a queue's thread.
void HostDevice::Run(size_t queue) {
  Task task;
  while (true) {
    {
      MutexLock lock(mutex_);
      QueueState& state = queues_[queue];
      state.busy = false;
      if (state.tasks.empty()) idle_.Signal();
      while (state.tasks.empty()) {
        if (shutdown_) return;
        state.wake.Wait(mutex_);
      }
      state.busy = true;
      task = std::move(state.tasks.front());
      state.tasks.pop_front();
    }
    task();
    task = nullptr;  // frees its captures before the queue counts as idle
  }
}

}  // namespace stowage

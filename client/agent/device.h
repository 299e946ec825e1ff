// What the agent needs of a device: memory, three in-order queues, and events between them.
#ifndef STOWAGE_CLIENT_AGENT_DEVICE_H_
#define STOWAGE_CLIENT_AGENT_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stowage {

enum class Queue {
  kCompute,
  kToHost,    // copies to the host, and on a half-duplex link all copies
  kToDevice,  // copies to the device
};
inline constexpr int kQueues = 3;

// Memory of the device. A type of its own, so that it is not taken for the host's.
struct DeviceSpan {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

// Memory of the host that copies run from and to, pinned where that means something.
struct PinnedSpan {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

enum class Direction { kToHost, kToDevice };

// A moment on a queue.
class Event {
 public:
  virtual ~Event() = default;
  // When it came, since the device was made. Requires: Synchronize() has returned OK since.
  virtual double Seconds() const = 0;
};

// `stream`: the queue as the device knows it, a cudaStream_t; null on the host. On an accelerator
// work runs at once and enqueues more, on the host it is what runs when its turn comes.
using Work = absl::AnyInvocable<absl::Status(void* stream)>;

// Every call but Synchronize() and the four for memory only enqueues. Once something has failed,
// what is enqueued after it does nothing until Synchronize() has returned the error.
// One thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  // Errors of both: RESOURCE_EXHAUSTED, with what was asked for. Aligned for any use.
  virtual absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) = 0;
  virtual absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) = 0;
  // Requires of both: Synchronize() has returned since the last use. An empty span may be freed.
  virtual void Free(DeviceSpan span) = 0;
  virtual void FreePinned(PinnedSpan span) = 0;

  // Requires of both: spans of one size.
  virtual absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) = 0;
  virtual absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) = 0;
  virtual absl::Status Launch(Queue queue, Work work) = 0;
  // Work that copies so many bytes itself: takes as long as a Copy() at least.
  virtual absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes, Work work) = 0;
  // Once all that was enqueued on `queue` before it has ended.
  virtual absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) = 0;
  // What is enqueued on `queue` from now on begins after the event.
  virtual absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) = 0;

  // Returns when all queues are empty, with the first error of any since the last call.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_DEVICE_H_

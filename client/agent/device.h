// The device interface of the agent: memory, three in-order queues, and events between them.
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

// Device memory. Host memory has another type, so that the two cannot be confused.
struct DeviceSpan {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

// Host memory for copies from and to the device; pinned where the device distinguishes that.
struct PinnedSpan {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

enum class Direction { kToHost, kToDevice };

// A point in a queue's work.
class Event {
 public:
  virtual ~Event() = default;
  // When the queue reached it, in seconds since the device was created. Requires: Synchronize() has
  // returned OK after the event was recorded.
  virtual double Seconds() const = 0;
};

// `stream`: the device's handle of the queue, a cudaStream_t; null on the host. On an accelerator
// Launch() calls the work itself, which enqueues on the stream; on the host the queue's thread
// calls it in order.
using DeviceWork = absl::AnyInvocable<absl::Status(void* stream)>;

// All calls but Synchronize() and the four for memory only enqueue. After a failure, work that is
// enqueued does nothing until Synchronize() has returned the error. One thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  // Aligned for any type. Errors of both: RESOURCE_EXHAUSTED, with the size.
  virtual absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) = 0;
  virtual absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) = 0;
  // Require: Synchronize() has returned since the last use of the span. It may be empty.
  virtual void Free(DeviceSpan span) = 0;
  virtual void FreePinned(PinnedSpan span) = 0;

  // Require: spans of equal size.
  virtual absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) = 0;
  virtual absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) = 0;
  virtual absl::Status Launch(Queue queue, DeviceWork work) = 0;
  // Work that itself copies `bytes`. On a device with a limited link it takes at least as long as a
  // Copy() of that size.
  virtual absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                                  DeviceWork work) = 0;
  // The event happens when all earlier work of `queue` has ended.
  virtual absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) = 0;
  // Later work of `queue` starts after the event.
  virtual absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) = 0;

  // Blocks until all queues are empty. Returns the first error of any queue since the last call.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_DEVICE_H_

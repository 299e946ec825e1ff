// Forwards every call to another device; devices of tests override some of the calls.
#ifndef STOWAGE_TESTS_SUPPORT_FORWARDING_DEVICE_H_
#define STOWAGE_TESTS_SUPPORT_FORWARDING_DEVICE_H_

#include <memory>
#include <utility>

#include "client/agent/device.h"

namespace stowage {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device* device) : device_(*device) {}

  absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) override { return device_.Allocate(bytes); }
  absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) override {
    return device_.AllocatePinned(bytes);
  }
  void Free(DeviceSpan span) override { device_.Free(span); }
  void FreePinned(PinnedSpan span) override { device_.FreePinned(span); }
  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    return device_.Copy(queue, from, to);
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    return device_.Copy(queue, from, to);
  }
  absl::Status Launch(Queue queue, DeviceWork work) override {
    return device_.Launch(queue, std::move(work));
  }
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                          DeviceWork work) override {
    return device_.LaunchCopy(queue, direction, bytes, std::move(work));
  }
  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override {
    return device_.Record(queue);
  }
  absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) override {
    return device_.Wait(queue, event);
  }
  absl::Status Synchronize() override { return device_.Synchronize(); }

 protected:
  Device& device_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FORWARDING_DEVICE_H_

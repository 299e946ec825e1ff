// A device whose queues dawdle at random, so that what is not made to wait runs too early.
#ifndef STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_
#define STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "client/agent/device.h"

namespace stowage {

class JitteryDevice final : public Device {
 public:
  JitteryDevice(Device* device, uint32_t seed) : device_(*device), random_(seed) {}

  absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) override { return device_.Allocate(bytes); }
  absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) override {
    return device_.AllocatePinned(bytes);
  }
  void Free(DeviceSpan span) override { device_.Free(span); }
  void FreePinned(PinnedSpan span) override { device_.FreePinned(span); }
  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    Dawdle(queue);
    return device_.Copy(queue, from, to);
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    Dawdle(queue);
    return device_.Copy(queue, from, to);
  }
  absl::Status Launch(Queue queue, Work work) override {
    Dawdle(queue);
    return device_.Launch(queue, std::move(work));
  }
  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override {
    return device_.Record(queue);
  }
  absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) override {
    return device_.Wait(queue, event);
  }
  absl::Status Synchronize() override { return device_.Synchronize(); }

 private:
  void Dawdle(Queue queue) {
    constexpr uint32_t kOneIn = 4;
    constexpr uint32_t kMostMicroseconds = 200;
    if (random_() % kOneIn != 0) return;
    const std::chrono::microseconds pause(random_() % kMostMicroseconds);
    (void)device_.Launch(queue, [pause](void*) {
      std::this_thread::sleep_for(pause);
      return absl::OkStatus();
    });
  }

  Device& device_;
  std::mt19937 random_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_

// Delays queues at random, so that a missing wait shows as work that runs too early.
#ifndef STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_
#define STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>

#include "tests/support/forwarding_device.h"

namespace stowage {

class JitteryDevice final : public ForwardingDevice {
 public:
  JitteryDevice(Device* device, uint32_t seed) : ForwardingDevice(device), random_(seed) {}

  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    Delay(queue);
    return device_.Copy(queue, from, to);
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    Delay(queue);
    return device_.Copy(queue, from, to);
  }
  absl::Status Launch(Queue queue, DeviceWork work) override {
    Delay(queue);
    return device_.Launch(queue, std::move(work));
  }
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                          DeviceWork work) override {
    Delay(queue);
    return device_.LaunchCopy(queue, direction, bytes, std::move(work));
  }

 private:
  // Before one in four pieces of work, sleeps on the queue for up to 200 us.
  void Delay(Queue queue) {
    constexpr uint32_t kOneIn = 4;
    constexpr uint32_t kMaxMicroseconds = 200;
    if (random_() % kOneIn != 0) return;
    const std::chrono::microseconds pause(random_() % kMaxMicroseconds);
    (void)device_.Launch(queue, [pause](void*) {
      std::this_thread::sleep_for(pause);
      return absl::OkStatus();
    });
  }

  std::mt19937 random_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_JITTERY_DEVICE_H_

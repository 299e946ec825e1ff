// Copies between device and pinned host memory, to measure their speed and to load the link.
#ifndef STOWAGE_TESTS_GPU_LINK_LOAD_H_
#define STOWAGE_TESTS_GPU_LINK_LOAD_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/device.h"

namespace stowage {

struct Directions {
  bool to_host = false;
  bool to_device = false;
};

// Bytes per second; 0 for a direction without copies.
struct LinkRates {
  double to_host = 0;
  double to_device = 0;
};

// Not thread-safe.
class LinkLoad {
 public:
  // For copies of `bytes` each. Borrows `device`. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<LinkLoad>> Create(Device* device, int64_t bytes);
  ~LinkLoad();
  LinkLoad(const LinkLoad&) = delete;
  LinkLoad& operator=(const LinkLoad&) = delete;

  // Enqueues `copies` copies in each direction, one after the other, without waiting.
  absl::Status Enqueue(Directions directions, int copies);
  // Times `copies` copies in each direction; both directions start together.
  absl::StatusOr<LinkRates> Measure(Directions directions, int copies);

 private:
  LinkLoad(Device* device, int64_t bytes) : device_(*device), bytes_(bytes) {}
  absl::Status Allocate();

  Device& device_;
  const int64_t bytes_;
  std::array<DeviceSpan, 2> on_device_ = {};  // one is read, the other written
  std::array<PinnedSpan, 2> on_host_ = {};
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_LINK_LOAD_H_

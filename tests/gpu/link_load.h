// Copies between device and pinned host memory, for their own sake: how fast they are, and what
// they cost others.
#ifndef STOWAGE_TESTS_GPU_LINK_LOAD_H_
#define STOWAGE_TESTS_GPU_LINK_LOAD_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/device.h"

namespace stowage {

struct Ways {
  bool to_host = false;
  bool to_device = false;
};

// Bytes a second; 0 for a way that was not taken.
struct LinkRates {
  double to_host = 0;
  double to_device = 0;
};

// Not thread-safe.
class LinkLoad {
 public:
  // For copies of so many bytes. Borrows `device`. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<LinkLoad>> Create(Device* device, int64_t bytes);
  ~LinkLoad();
  LinkLoad(const LinkLoad&) = delete;
  LinkLoad& operator=(const LinkLoad&) = delete;

  // Enqueues so many copies each way, one behind the other, and waits for nothing.
  absl::Status Enqueue(Ways ways, int copies);
  // Of so many copies each way, both ways beginning at the same time.
  absl::StatusOr<LinkRates> Measure(Ways ways, int copies);

 private:
  LinkLoad(Device* device, int64_t bytes) : device_(*device), bytes_(bytes) {}
  absl::Status Allocate();

  Device& device_;
  const int64_t bytes_;
  std::array<DeviceSpan, 2> on_device_ = {};  // the one is read, the other written
  std::array<PinnedSpan, 2> on_host_ = {};
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_LINK_LOAD_H_

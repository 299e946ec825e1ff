// The device that stowage-train runs on.
#ifndef STOWAGE_CLIENT_TRAIN_TRAIN_DEVICE_H_
#define STOWAGE_CLIENT_TRAIN_TRAIN_DEVICE_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/agent/host_device.h"

namespace stowage {

struct TrainDevice {
  c10::Device torch = c10::kCPU;
  std::unique_ptr<Device> agent;
  int64_t memory_bytes = 0;  // of the whole device
  int64_t used_bytes = 0;    // by others and by the device's own software
};

// `name` as LibTorch writes it. On a CUDA device, LibTorch's current stream of the calling thread
// is from now on the one that the agent computes on. Errors: INVALID_ARGUMENT for a name that is
// none, NOT_FOUND for a device that is not there.
absl::StatusOr<TrainDevice> OpenDevice(const std::string& name, const LinkSpeed& link);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_TRAIN_DEVICE_H_

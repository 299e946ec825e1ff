// The device that a network is trained on, as LibTorch and the agent see it.
#ifndef STOWAGE_CLIENT_TORCH_BASE_TORCH_DEVICE_H_
#define STOWAGE_CLIENT_TORCH_BASE_TORCH_DEVICE_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/agent/host_device.h"

namespace stowage {

struct TorchDevice {
  c10::Device torch = c10::kCPU;
  std::unique_ptr<Device> agent;
  int64_t memory_bytes = 0;  // of the whole device
  int64_t used_bytes = 0;    // by other processes, the driver and libraries
};

// `name` is LibTorch's: "cpu" or "cuda:0". For a CUDA device this sets LibTorch's current stream of
// the calling thread to the agent's compute queue. Errors: INVALID_ARGUMENT for an unknown name,
// NOT_FOUND for a missing device.
absl::StatusOr<TorchDevice> OpenDevice(const std::string& name, const LinkSpeed& link);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_BASE_TORCH_DEVICE_H_

#include "client/torch/base/torch_device.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

#ifdef STOWAGE_TORCH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "client/agent/cuda/cuda_device.h"
#endif

namespace stowage {
namespace {

// Memory available to new programs, from /proc/meminfo; `total_bytes` if that has no such line.
int64_t AvailableBytes(int64_t total_bytes) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return total_bytes;
}

// The whole memory of the machine.
TorchDevice Host(const LinkSpeed& link) {
  TorchDevice device;
  device.agent = std::make_unique<HostDevice>(link);
  device.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  device.used_bytes = device.memory_bytes - AvailableBytes(device.memory_bytes);
  return device;
}

#ifdef STOWAGE_TORCH_CUDA
// Shares one stream with LibTorch, so that its allocator and the agent's computations stay in
// order.
absl::StatusOr<TorchDevice> Cuda(c10::Device torch) {
  if (!torch.has_index()) torch.set_index(0);
  if (torch.index() >= CudaDeviceCount()) {
    return absl::NotFoundError(absl::StrCat("there are ", CudaDeviceCount(), " CUDA devices"));
  }
  TorchDevice device;
  device.torch = torch;
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, torch.index());
  // What the caller has enqueued, such as its weights' initialization, is not ordered before the
  // new stream's work.
  c10::cuda::getCurrentCUDAStream(torch.index()).synchronize();
  c10::cuda::setCurrentCUDAStream(stream);
  // LibTorch sets up its allocator, which memory meters and limits ask, with the first tensor.
  (void)at::empty({1}, at::dtype(at::kByte).device(torch));
  ASSIGN_OR_RETURN(device.agent, CudaDevice::Create({.ordinal = torch.index(),
                                                     .compute_stream = stream.stream()}));
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) {
    return absl::InternalError("cudaMemGetInfo failed: the device's memory is unknown");
  }
  device.memory_bytes = static_cast<int64_t>(all_bytes);
  device.used_bytes = static_cast<int64_t>(all_bytes - free_bytes);
  return device;
}
#endif

// LibTorch reports an invalid name by an exception; it becomes a status here.
absl::StatusOr<c10::Device> Parse(const std::string& name) {
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is no device; write cpu or cuda:0"));
  }
}

}  // namespace

absl::StatusOr<TorchDevice> OpenDevice(const std::string& name, const LinkSpeed& link) {
  ASSIGN_OR_RETURN(const c10::Device torch, Parse(name));
  if (torch.is_cpu()) return Host(link);
#ifdef STOWAGE_TORCH_CUDA
  if (torch.is_cuda()) return Cuda(torch);
#endif
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is a device that this program was not built for"));
}

}  // namespace stowage

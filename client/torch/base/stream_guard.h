// Runs LibTorch's operations on the streams of the agent's queues.
#ifndef STOWAGE_CLIENT_TORCH_BASE_STREAM_GUARD_H_
#define STOWAGE_CLIENT_TORCH_BASE_STREAM_GUARD_H_

#include <c10/core/Device.h>

#ifdef STOWAGE_TORCH_CUDA
#include <ATen/cuda/Sleep.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <optional>
#endif

namespace stowage {

// While in scope, LibTorch's operations on this thread run on `stream`, a cudaStream_t, if `device`
// is a CUDA device. Does nothing for other devices. Requires: a CUDA device has an index.
class StreamGuard {
 public:
#ifdef STOWAGE_TORCH_CUDA
  StreamGuard(c10::Device device, void* stream) {
    if (!device.is_cuda()) return;
    guard_.emplace(
        c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device.index()));
  }

 private:
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
#else
  StreamGuard(c10::Device /*device*/, void* /*stream*/) {}
#endif
};

// Makes later work of `stream` wait for the work that the calling thread has enqueued on its
// current stream, such as an optimizer's step.
#ifdef STOWAGE_TORCH_CUDA
inline void WaitForCaller(c10::Device device, void* stream) {
  if (!device.is_cuda()) return;
  c10::Event enqueued(device.type());
  enqueued.record(c10::cuda::getCurrentCUDAStream(device.index()));
  enqueued.block(
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device.index()));
}
#else
inline void WaitForCaller(c10::Device /*device*/, void* /*stream*/) {}
#endif

// Keeps `stream` busy for at least `seconds`, so that the host enqueues that far ahead, as it does
// within a step. Does nothing on the host.
#ifdef STOWAGE_TORCH_CUDA
inline void KeepBusy(c10::Device device, void* stream, double seconds) {
  if (!device.is_cuda() || seconds <= 0) return;
  constexpr double kFastestClock = 2.1e9;  // cycles per second; a slower one is busy for longer
  const StreamGuard on(device, stream);
  at::cuda::sleep(static_cast<int64_t>(seconds * kFastestClock));
}
#else
inline void KeepBusy(c10::Device /*device*/, void* /*stream*/, double /*seconds*/) {}
#endif

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_BASE_STREAM_GUARD_H_

// LibTorch's current stream and the agent's queues.
#ifndef STOWAGE_CLIENT_TORCH_STREAM_GUARD_H_
#define STOWAGE_CLIENT_TORCH_STREAM_GUARD_H_

#include <c10/core/Device.h>

#ifdef STOWAGE_TORCH_CUDA
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>

#include <optional>
#endif

namespace stowage {

// What LibTorch does on this thread while this is there goes to `stream`, a cudaStream_t, where
// `device` is a CUDA device; elsewhere there is nothing to do.
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

// What comes on `stream` from now on begins after what the calling thread's current stream has been
// given: a caller's optimizer, say.
#ifdef STOWAGE_TORCH_CUDA
inline void WaitForCaller(c10::Device device, void* stream) {
  if (!device.is_cuda()) return;
  c10::Event given(device.type());
  given.record(c10::cuda::getCurrentCUDAStream(device.index()));
  given.block(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device.index()));
}
#else
inline void WaitForCaller(c10::Device /*device*/, void* /*stream*/) {}
#endif

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STREAM_GUARD_H_

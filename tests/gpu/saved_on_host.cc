#include "tests/gpu/saved_on_host.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "client/torch/native/saved_tensors.h"

namespace stowage {
namespace {

// Uninitialized, of the tensor's shape and type.
at::Tensor HostTensorLike(const at::Tensor& tensor, c10::Device device) {
  const at::TensorOptions options = tensor.options().device(at::kCPU).requires_grad(false);
  if (!device.is_cpu()) return at::empty(tensor.sizes(), options.pinned_memory(true));
  const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.nbytes());
  return at::from_blob(
      bytes->data(), tensor.sizes(), [bytes](void*) {}, options);
}

SavedTensor Save(const at::Tensor& tensor, c10::Device device) {
  at::Tensor host = HostTensorLike(tensor, device);
  host.copy_(tensor.detach());
  return [host, device] {
    return host.to(device, host.scalar_type(), /*non_blocking=*/true, /*copy=*/true);
  };
}

template <typename Call>
auto Hooked(Call call, c10::Device device) {
  return [call = std::move(call), device](const at::Tensor& input) {
    const SavedTensorScope scope(
        [device](const at::Tensor& tensor) { return Save(tensor, device); });
    return call(input);
  };
}

}  // namespace

Network SavedOnHost(const Network& network, c10::Device device) {
  Network saved = network;
  for (TorchStage& stage : saved.stages) stage.forward = Hooked(stage.forward, device);
  saved.loss = Hooked(network.loss, device);
  return saved;
}

}  // namespace stowage

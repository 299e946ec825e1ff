#include "client/torch/stages/torch_stage.h"

#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/stages/held_value.h"

namespace stowage {
namespace {

std::vector<at::Tensor> Distinct(
    const std::vector<TorchStage>& stages,
    const std::function<std::vector<at::Tensor>(torch::nn::Module&)>& tensors_of) {
  std::vector<at::Tensor> all;
  std::unordered_set<const void*> seen;
  for (const TorchStage& stage : stages) {
    if (stage.module == nullptr) continue;
    for (at::Tensor& tensor : tensors_of(*stage.module)) {
      if (seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(std::move(tensor));
    }
  }
  return all;
}

}  // namespace

std::vector<TorchStage> StagesOf(torch::nn::Sequential sequential) {
  std::vector<TorchStage> stages;
  for (const auto& child : sequential->named_children()) {
    const size_t index = stages.size();
    stages.push_back(
        {.name = child.key(),
         .forward = [any = *(sequential->begin() + static_cast<std::ptrdiff_t>(index))](
                        const at::Tensor& input) mutable { return any.forward(input); },
         .module = child.value()});
  }
  return stages;
}

std::vector<at::Tensor> ParametersOf(const std::vector<TorchStage>& stages) {
  return Distinct(stages, [](torch::nn::Module& module) { return module.parameters(); });
}

std::vector<at::Tensor> BuffersOf(const std::vector<TorchStage>& stages) {
  return Distinct(stages, [](torch::nn::Module& module) { return module.buffers(); });
}

absl::Status CheckInput(const TorchInput& input, c10::Device device) {
  if (!input.tensor.defined()) return absl::FailedPreconditionError("no input: Feed() it first");
  if (!IsOnDevice(input.tensor, device)) {
    return absl::InvalidArgumentError(absl::StrCat("the input is on ", input.tensor.device().str(),
                                                   ", but the network on ", device.str()));
  }
  for (const auto& [name, tensor] : input.sides) {
    if (!tensor.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("side input ", name, " is no tensor"));
    }
    if (!tensor.requires_grad()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("side input ", name,
                     " requires a gradient, which none has: detach() it, or "
                     "make what computes it the first stage"));
  }
  return absl::OkStatus();
}

}  // namespace stowage

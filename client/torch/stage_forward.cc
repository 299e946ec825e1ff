// Invariants of a forward that runs apart from the rest of the network:
// - It sees a new tensor of its input, whose graph ends at this stage (StageGraph), so that a
//   backward never crosses stages.
// - Tensors that autograd saves go through SavedTensorScope. Each is one of
//     a parameter, a buffer, or on another device: stored as a tensor; its version must not change;
//     a part of the input: a view of value l-1, which is on the device when the backward runs;
//     anything else: held by value l, and part of its bytes.
//   So dropping a HeldValue frees all device memory of the value, and offloading moves all of it.
// - Saved tensors may be read only while their own stage is active. A read at another time means
//   that another stage uses a tensor of this one, and fails the step.
// - A forward that saves nothing runs the same kernels with the same hooks as one that saves.
#include "client/torch/stage_forward.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "client/torch/stage_graph.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// tensor.detach() without dispatching, which takes longer than all else here.
at::Tensor Detached(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(),
                                                 /*allow_tensor_metadata_change=*/false));
}

enum class VersionCheck { kNone, kUnchanged };

SavedTensor SaveInPlace(const at::Tensor& tensor, VersionCheck check) {
  return [tensor = Detached(tensor), check, version = tensor._version()] {
    TORCH_CHECK(check == VersionCheck::kNone || tensor._version() == version,
                "a parameter was changed between the forward and the backward that reads it");
    return tensor;
  };
}

}  // namespace

absl::Status StageForward::Run() {
  const HeldValue& held_input = arguments_.input;
  HeldValue& value = arguments_.value;
  // With gradients in every kind of run, so that LibTorch chooses the same kernels. Without
  // FORWARD_SAVE, what autograd saves is dropped at once.
  const at::AutoGradMode grad(true);
  at::Tensor input = held_input.Output();
  if (held_input.differentiable()) input = value.graph.Enter(input);
  const int64_t version = input._version();
  at::Tensor output;
  {
    const SavedTensorScope scope([this](const at::Tensor& tensor) { return Save(tensor); });
    output = arguments_.forward(input);
    // Offloading or dropping a value must not affect another one.
    if (Aliases(output)) output = output.clone();
  }
  RETURN_IF_ERROR(CheckOutput(output));
  RETURN_IF_ERROR(CheckWrites(input, version));
  // Without FORWARD_SAVE the graph is dropped, and with it every saved tensor.
  if (saves()) {
    value.graph.Leave(output);
    value.set_saved();
  } else {
    value.graph = {};
  }
  value.set_differentiable(output.requires_grad());
  value.HoldOutput(output);
  return absl::OkStatus();
}

// Whether the output has memory of the input, a parameter or a buffer.
bool StageForward::Aliases(const at::Tensor& output) const {
  if (!output.defined() || !IsOnDevice(output, arguments_.device)) return false;
  return arguments_.input.SharesOutputStorage(output) ||
         arguments_.constants.count(StorageOf(output)) > 0;
}

absl::Status StageForward::CheckOutput(const at::Tensor& output) const {
  if (!output.defined()) return absl::InvalidArgumentError("returns no tensor");
  if (!IsOnDevice(output, arguments_.device)) {
    return absl::InvalidArgumentError(absl::StrCat("returns a tensor on ", output.device().str(),
                                                   ", but the network is on ",
                                                   arguments_.device.str()));
  }
  return absl::OkStatus();
}

// A write into the input would change what a recomputation reads; one into a saved tensor, what the
// backward reads.
absl::Status StageForward::CheckWrites(const at::Tensor& input, int64_t version) const {
  if (input._version() != version) {
    return absl::InvalidArgumentError(
        "writes into its input, which is another stage's: make it work out of place, or make it "
        "and the stage before it one");
  }
  for (const auto& [version_now, version_when_saved] : saved_) {
    if (version_now.current_version() != version_when_saved) {
      return absl::InvalidArgumentError(
          "changes in place what it has saved for its backward: make it work out of place");
    }
  }
  return absl::OkStatus();
}

// The hook of a tensor that autograd saves.
SavedTensor StageForward::Save(const at::Tensor& tensor) {
  if (!saves()) {
    return ForOwnBackward([]() -> at::Tensor {
      TORCH_CHECK(false, "runs a backward inside its forward: declare it no_recompute");
      return {};
    });
  }
  if (!IsOnDevice(tensor, arguments_.device)) return SaveInPlace(tensor, VersionCheck::kUnchanged);
  const c10::VariableVersion& saved_version = tensor.unsafeGetTensorImpl()->version_counter();
  saved_.emplace_back(saved_version, saved_version.current_version());
  const Constants& constants = arguments_.constants;
  if (const auto constant = constants.find(StorageOf(tensor)); constant != constants.end()) {
    // A buffer may change: normalization updates its statistics after reading them.
    return SaveInPlace(tensor, constant->second == Constant::kParameter ? VersionCheck::kUnchanged
                                                                        : VersionCheck::kNone);
  }
  const HeldValue& input = arguments_.input;
  if (input.SharesOutputStorage(tensor)) {
    return ForOwnBackward([&input, view = ViewOf(tensor, 0)] { return input.PartOfOutput(view); });
  }
  HeldValue& value = arguments_.value;
  return ForOwnBackward([&value, view = value.Hold(tensor)] { return value.Tensor(view); });
}

// `load`, but only while this stage is active: in its own backward, or in one inside its forward.
template <typename Load>
SavedTensor StageForward::ForOwnBackward(Load load) const {
  return [load = std::move(load), &active = arguments_.active_stage, l = arguments_.stage] {
    TORCH_CHECK(active == l, kUsedElsewhere);
    return load();
  };
}

}  // namespace stowage

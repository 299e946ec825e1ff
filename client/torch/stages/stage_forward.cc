// Invariants of a forward that runs apart from the rest of the network:
// - It sees new tensors of its input, whose graph ends at this stage (StageGraph), so that a
//   backward never crosses stages.
// - An output that is a tensor of the input, such as a skip that passes by, is in both values,
// which
//   then share its storage: it is freed with the last of them, so that a step takes no more memory
//   than a chain in which each value has its own.
// - Tensors that autograd saves go through SavedTensorScope. Each is one of
//     a parameter, a buffer, a side input, or on another device: stored as a tensor; its version
//       must not change, but for buffers;
//     a part of the input: a view of value l-1, which is on the device when the backward runs;
//     anything else: held by value l, and part of its bytes.
//   So dropping a HeldValue frees all device memory of the value, and offloading moves all of it.
// - Saved tensors may be read only while their own stage is active. A read at another time means
//   that another stage uses a tensor of this one, and fails the step.
// - A forward that saves nothing runs the same kernels with the same hooks as one that saves.
// - A replay fills the recorded graph of the run before it and ends where that is full: before the
//   kernels of which only the output needs the result (RecordedGraph).
// - A forward that saves by an option records its graph, too, of which some places are kept; its
//   rerun, at the beginning of the backward, is a replay that fills the others (KeptResults).
#include "client/torch/stages/stage_forward.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/stages/operator_scope.h"
#include "client/torch/stages/stage_graph.h"
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
                "a parameter or side input was changed between the forward and the backward that "
                "reads it");
    return tensor;
  };
}

// Loads a tensor that was not saved.
at::Tensor NotForBackward() {
  TORCH_CHECK(false, "runs a backward inside its forward: declare it no_recompute");
  return {};
}

}  // namespace

Constants ConstantsOf(const std::vector<TorchStage>& stages, const SideInputs& sides) {
  Constants constants;
  for (const TorchStage& stage : stages) {
    if (stage.module == nullptr) continue;
    for (const at::Tensor& buffer : stage.module->buffers()) {
      constants.emplace(StorageOf(buffer), Constant::kBuffer);
    }
    for (const at::Tensor& parameter : stage.module->parameters()) {
      constants[StorageOf(parameter)] = Constant::kParameter;
    }
  }
  for (const auto& [name, tensor] : sides) {
    if (tensor.has_storage()) constants.emplace(StorageOf(tensor), Constant::kSideInput);
  }
  return constants;
}

bool HoldsSavedTensorsOnly(const StageGraph& graph, const Constants& constants) {
  return graph.HoldsSavedTensorsOnly([&constants](const at::Tensor& leaf) {
    return leaf.has_storage() && constants.count(StorageOf(leaf)) > 0;
  });
}

absl::Status StageForward::Run() {
  HeldValue& value = arguments_.value;
  // With gradients in every kind of run, so that LibTorch chooses the same kernels. Without
  // FORWARD_SAVE, what autograd saves is dropped at once.
  const at::AutoGradMode grad(true);
  StageOutput input = arguments_.input.Output();
  value.graph.Enter(arguments_.name, input.differentiable, &input.tensors);
  for (const at::Tensor& tensor : input.tensors) inputs_.emplace_back(tensor);
  for (const auto& [name, tensor] : arguments_.sides) sides_.emplace_back(tensor);
  if (arguments_.kept != nullptr) kept_run_.emplace(KeptRun());
  const bool records = arguments_.recorded != nullptr;
  const bool replays = arguments_.kept != nullptr ? arguments_.reruns : saves() && records;
  if (replays) return RunReplay(input);
  ASSIGN_OR_RETURN(StageOutput output, RunForward(input));
  RETURN_IF_ERROR(CheckWrites());
  if (arguments_.kept != nullptr) arguments_.kept->EndForward(*kept_run_);
  // Without FORWARD_SAVE the graph is dropped, and with it every saved tensor.
  if (saves() || records) value.graph.Leave(output.tensors);
  if (records) arguments_.recorded->SetGraph(value.graph);
  if (arguments_.kept != nullptr) {
    arguments_.recorded->BeginReplay();
    value.reads_input = value.reads_input || !arguments_.recorded->ended();
  }
  if (saves()) {
    value.set_saved();
  } else {
    value.graph = {};
  }
  for (const at::Tensor& tensor : output.tensors) {
    output.differentiable.push_back(tensor.requires_grad());
  }
  value.HoldOutput(output);
  value.MarkPassed(arguments_.input);
  return absl::OkStatus();
}

// The graph that it makes itself only leads to the tensors that are saved.
absl::Status StageForward::RunReplay(const StageOutput& input) {
  RecordedGraph& recorded = *arguments_.recorded;
  recorded.BeginReplay();
  if (!recorded.ended()) {
    const SavedTensorScope scope([this](const at::Tensor& tensor) { return SaveInReplay(tensor); });
    try {
      CallForward(input);
    } catch (...) {
      // After the end also what the stage has thrown instead.
      if (!recorded.ended()) throw;
    }
  }
  RETURN_IF_ERROR(recorded.EndReplay());
  RETURN_IF_ERROR(CheckWrites());
  arguments_.value.graph = recorded.graph();
  arguments_.value.set_saved();
  return absl::OkStatus();
}

Tensors StageForward::CallForward(const StageOutput& input) const {
  if (arguments_.kept == nullptr) return arguments_.forward(input.Tuple());
  KeptResults& kept = *arguments_.kept;
  if (arguments_.reruns) kept.BeginRerun();
  const OperatorScope scope([&](const c10::OperatorHandle& operation, c10::Stack* stack) {
    if (arguments_.reruns) {
      kept.RerunOperator(*kept_run_, operation, stack);
    } else {
      kept.RunOperator(*kept_run_, operation, stack);
    }
  });
  return arguments_.forward(input.Tuple());
}

KeptResults::Run StageForward::KeptRun() {
  return {.device = arguments_.device,
          .value = arguments_.value,
          .recorded = *arguments_.recorded,
          .is_elsewhere = [this](const at::Tensor& tensor) { return IsElsewhere(tensor); },
          .save = [this](const at::Tensor& tensor) { return SaveForBackward(tensor); },
          .hold =
              [this](const at::Tensor& tensor) {
                return ForOwnBackward(arguments_.value.HoldForReader(tensor));
              }};
}

// Whether SaveForBackward() of the tensor adds nothing to the value.
bool StageForward::IsElsewhere(const at::Tensor& tensor) const {
  return !IsOnDevice(tensor, arguments_.device) ||
         arguments_.constants.count(StorageOf(tensor)) > 0 ||
         arguments_.input.FindOutput(tensor).has_value();
}

absl::StatusOr<StageOutput> StageForward::RunForward(const StageOutput& input) {
  const SavedTensorScope scope([this](const at::Tensor& tensor) { return Save(tensor); });
  StageOutput output = StageOutput::Of(CallForward(input));
  for (at::Tensor& tensor : output.tensors) {
    RETURN_IF_ERROR(CheckOutput(tensor));
    const bool passes =
        std::any_of(input.tensors.begin(), input.tensors.end(),
                    [&](const at::Tensor& entered) { return entered.is_same(tensor); });
    // Offloading or dropping a value must not affect another one, but for what passes by.
    if (!passes && Aliases(tensor)) tensor = tensor.clone();
  }
  return output;
}

// Whether the output has memory of the input or of a constant.
bool StageForward::Aliases(const at::Tensor& output) const {
  return arguments_.input.FindOutput(output).has_value() ||
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
absl::Status StageForward::CheckWrites() const {
  const auto changed = [](const Version& version) { return version.changed(); };
  if (std::any_of(inputs_.begin(), inputs_.end(), changed)) {
    return absl::InvalidArgumentError(
        "writes into its input, which is another stage's: make it work out of place, or make it "
        "and the stage before it one");
  }
  auto side = sides_.begin();
  for (const auto& [name, tensor] : arguments_.sides) {
    if (!(side++)->changed()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("writes into the side input ", name, ": make it work out of place"));
  }
  if (std::any_of(saved_.begin(), saved_.end(), changed)) {
    return absl::InvalidArgumentError(
        "changes in place what it has saved for its backward: make it work out of place");
  }
  return absl::OkStatus();
}

// The hook of a tensor that autograd saves.
SavedTensor StageForward::Save(const at::Tensor& tensor) {
  if (arguments_.kept != nullptr) {
    if (IsOnDevice(tensor, arguments_.device)) saved_.emplace_back(tensor);
    return ForOwnBackward(arguments_.kept->Save(*kept_run_, tensor));
  }
  if (saves()) return SaveForBackward(tensor);
  if (arguments_.recorded != nullptr) return ForOwnBackward(arguments_.recorded->AddPlace(tensor));
  return ForOwnBackward(NotForBackward);
}

SavedTensor StageForward::SaveInReplay(const at::Tensor& tensor) {
  RecordedGraph& recorded = *arguments_.recorded;
  // After its end the stage may still run: it has caught the exception.
  if (!recorded.ended()) recorded.Fill(tensor, SaveForBackward(tensor));
  return ForOwnBackward(NotForBackward);
}

SavedTensor StageForward::SaveForBackward(const at::Tensor& tensor) {
  if (!IsOnDevice(tensor, arguments_.device)) return SaveInPlace(tensor, VersionCheck::kUnchanged);
  saved_.emplace_back(tensor);
  const Constants& constants = arguments_.constants;
  if (const auto constant = constants.find(StorageOf(tensor)); constant != constants.end()) {
    // A buffer may change: normalization updates its statistics after reading them.
    return SaveInPlace(tensor, constant->second == Constant::kBuffer ? VersionCheck::kNone
                                                                     : VersionCheck::kUnchanged);
  }
  const HeldValue& input = arguments_.input;
  HeldValue& value = arguments_.value;
  if (const std::optional<size_t> found = input.FindOutput(tensor)) {
    value.reads_input = true;
    return ForOwnBackward([&input, number = *found, view = ViewOf(tensor, 0)] {
      return input.PartOfOutput(number, view);
    });
  }
  return ForOwnBackward(value.HoldForReader(tensor));
}

// `load`, but only while this stage is active: in its own backward, or in one inside its forward.
template <typename Load>
SavedTensor StageForward::ForOwnBackward(Load load) const {
  return [load = std::move(load), &active = arguments_.active_stage, l = arguments_.stage,
          &name = arguments_.name] {
    TORCH_CHECK_WITH(ValueError, active == l, UndeclaredText(name));
    return load();
  };
}

}  // namespace stowage

#include "client/torch/torch_stages.h"

#include <ATen/ATen.h>

#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/saved_tensors.h"
#include "client/torch/stream_guard.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

bool IsOnDevice(const at::Tensor& tensor, c10::Device device) {
  return tensor.device().type() == device.type() && tensor.has_storage();
}

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

// One forward of one stage.
class TorchStages::Run {
 public:
  Run(TorchStages* stages, int l, bool saves)
      : device_(stages->options_.device),
        stage_(stages->stages_[static_cast<size_t>(l) - 1]),
        constants_(stages->constants_),
        input_(stages->Value(l - 1)),
        value_(stages->Value(l)),
        needs_gradient_(stages->differentiable(l - 1)),
        saves_(saves) {}

  absl::Status operator()() {
    // The same kernels in every kind of run: what none shall keep is saved, and dropped at once.
    const at::AutoGradMode grad(true);
    at::Tensor input = input_.Output();
    if (needs_gradient_ && input.is_floating_point()) input = value_.graph.Enter(input);
    const auto version = input._version();
    at::Tensor output;
    {
      const SavedTensorScope scope([this](const at::Tensor& tensor) { return Keep(tensor); });
      output = stage_.forward(input);
      if (Aliases(output)) output = output.clone();
    }
    RETURN_IF_ERROR(CheckOutput(output));
    if (input._version() != version) {
      return absl::InvalidArgumentError(
          "writes into its input, which is another stage's: make it work out of place, or make it "
          "and the stage before it one");
    }
    for (const auto& [tensor, then] : kept_) {
      if (tensor._version() != then) {
        return absl::InvalidArgumentError(
            "changes in place what it has saved for its backward: make it work out of place");
      }
    }
    if (saves_) {
      value_.graph.Leave(output);
      value_.set_saved();
    } else {
      value_.graph = {};
    }
    value_.HoldOutput(output.detach());
    return absl::OkStatus();
  }

 private:
  bool Aliases(const at::Tensor& output) const {
    if (!output.defined() || !IsOnDevice(output, device_)) return false;
    return input_.IsBehindOutput(output) || constants_.count(StorageOf(output)) > 0;
  }

  absl::Status CheckOutput(const at::Tensor& output) const {
    if (!output.defined()) return absl::InvalidArgumentError("returns no tensor");
    if (!IsOnDevice(output, device_)) {
      return absl::InvalidArgumentError(absl::StrCat("returns a tensor on ", output.device().str(),
                                                     ", but the network is on ", device_.str()));
    }
    return absl::OkStatus();
  }

  SavedTensor Keep(const at::Tensor& tensor) {
    if (!saves_) return [] { return at::Tensor(); };
    if (!IsOnDevice(tensor, device_)) return KeepInPlace(tensor, /*checked=*/true);
    if (const auto constant = constants_.find(StorageOf(tensor)); constant != constants_.end()) {
      return KeepInPlace(tensor, constant->second);
    }
    kept_.emplace_back(tensor.detach(), tensor._version());
    if (input_.IsBehindOutput(tensor)) {
      return [&held = input_, view = ViewOf(tensor, 0)] { return held.PartOfOutput(view); };
    }
    return [&held = value_, view = value_.Hold(tensor)] { return held.Tensor(view); };
  }

  static SavedTensor KeepInPlace(const at::Tensor& tensor, bool checked) {
    return [tensor = tensor.detach(), checked, version = tensor._version()] {
      TORCH_CHECK(!checked || tensor._version() == version,
                  "a parameter was changed between the forward and the backward that reads it");
      return tensor;
    };
  }

  const c10::Device device_;
  const TorchStage& stage_;
  const std::unordered_map<const void*, bool>& constants_;
  HeldValue& input_;
  HeldValue& value_;
  const bool needs_gradient_;
  const bool saves_;
  std::vector<std::pair<at::Tensor, int64_t>> kept_;  // and their versions then
};

TorchStages::TorchStages(std::vector<TorchStage> stages, const TorchOptions& options)
    : stages_(std::move(stages)), options_(options) {
  const size_t values = stages_.size() + 2;
  values_.resize(values);
  gradients_.resize(values);
  first_outputs_.resize(values);
  shared_.resize(values);
  differentiable_.resize(values);
  stages_.push_back({.name = "loss"});
  replays_.emplace_back(nullptr, options_.device);  // of value 0: none
  for (const TorchStage& stage : stages_) replays_.emplace_back(stage.module, options_.device);
}

std::vector<at::Tensor> TorchStages::Parameters() const {
  return Distinct(stages_, [](torch::nn::Module& module) { return module.parameters(); });
}

std::vector<at::Tensor> TorchStages::Buffers() const {
  return Distinct(stages_, [](torch::nn::Module& module) { return module.buffers(); });
}

void TorchStages::Feed(at::Tensor input, TorchLoss loss) {
  input_ = std::move(input);
  stages_.back().forward = std::move(loss);
  callers_.emplace();
}

int64_t TorchStages::ValueBytes(int l) const { return Value(l).Bytes(options_.granularity); }

int64_t TorchStages::GradientBytes(int l) const {
  const at::Tensor& gradient = gradients_[static_cast<size_t>(l)];
  if (!gradient.defined()) return 0;
  HeldValue held;
  held.HoldOutput(gradient);
  return held.Bytes(options_.granularity);
}

void TorchStages::SetOutput(int l, const at::Tensor& output) {
  Drop(l);
  if (output.defined()) Value(l).HoldOutput(output);
}

void TorchStages::SetGradient(int l, at::Tensor gradient) {
  gradients_[static_cast<size_t>(l)] = std::move(gradient);
  loss_is_done_ = true;
}

// Anew every step: parameters may have been frozen, replaced, or moved.
void TorchStages::FindConstants() {
  constants_.clear();
  differentiable_[0] = input_.requires_grad();
  for (size_t l = 1; l <= stages_.size(); ++l) {
    differentiable_[l] = differentiable_[l - 1];
    const std::shared_ptr<torch::nn::Module>& module = stages_[l - 1].module;
    if (module == nullptr) continue;
    for (const at::Tensor& buffer : module->buffers()) constants_.emplace(StorageOf(buffer), false);
    for (const at::Tensor& parameter : module->parameters()) {
      constants_[StorageOf(parameter)] = true;
      if (parameter.requires_grad()) differentiable_[l] = true;
    }
  }
}

absl::Status TorchStages::Begin(DeviceSpan /*input*/, void* stream) {
  return TorchGuarded([&]() -> absl::Status {
    Abandon();
    if (!input_.defined()) return absl::FailedPreconditionError("no input: Feed() it first");
    if (!IsOnDevice(input_, options_.device)) {
      return absl::InvalidArgumentError(absl::StrCat("the input is on ", input_.device().str(),
                                                     ", but the network on ",
                                                     options_.device.str()));
    }
    compute_stream_ = stream;
    FindConstants();
    Value(0).HoldOutput(std::exchange(input_, {}).detach());
    return absl::OkStatus();
  });
}

absl::Status TorchStages::Named(int l, const std::function<absl::Status()>& call) const {
  absl::Status status = TorchGuarded(call);
  if (status.ok()) return status;
  const bool known =
      l >= 1 && l <= length() + 1 && !stages_[static_cast<size_t>(l) - 1].name.empty();
  return {status.code(),
          absl::StrCat(known ? stages_[static_cast<size_t>(l) - 1].name : absl::StrCat("stage ", l),
                       ": ", status.message())};
}

absl::Status TorchStages::CheckForward(int l) const {
  if (l >= 1 && l <= length() + 1 && Value(l - 1).live()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the plan is of another network than this one of ", length(), " stages"));
}

absl::Status TorchStages::CheckBackward(int l) const {
  RETURN_IF_ERROR(CheckForward(l));
  if (Value(l).saved() && (l > length() || loss_is_done_)) return absl::OkStatus();
  return CheckForward(0);
}

absl::Status TorchStages::Forward(const ForwardCall& call) {
  const int l = call.stage;
  return Named(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckForward(l));
    const auto index = static_cast<size_t>(l);
    if (call.run > 0 && stages_[index - 1].no_recompute) {
      return absl::FailedPreconditionError("may not run twice, but the plan recomputes it");
    }
    const at::ThreadLocalStateGuard callers(*callers_);
    const StreamGuard on(options_.device, call.stream);
    const bool saves = call.kind == OperationKind::kForwardSave;
    Drop(l);
    absl::Status status;
    const auto run = [&] { status = Run(this, l, saves)(); };
    call.run == 0 ? replays_[index].First(run) : replays_[index].Again(run);
    RETURN_IF_ERROR(status);
    if (saves && Value(l).IsShared()) shared_[index] = true;
    if (call.kind == OperationKind::kForwardDiscard) Drop(l - 1);
    if (options_.verifies) RETURN_IF_ERROR(Verify(l, call.run));
    if (l <= length()) return absl::OkStatus();
    loss_ = Value(l).Output().clone();
    if (loss_.numel() == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("has ", loss_.numel(), " numbers, not one"));
  });
}

absl::Status TorchStages::Verify(int l, int run) {
  at::Tensor& first = first_outputs_[static_cast<size_t>(l)];
  const at::Tensor now = Value(l).Output().to(at::kCPU);
  if (run == 0) {
    first = now.clone();
    return absl::OkStatus();
  }
  const bool same_shape = now.sizes() == first.sizes() && now.dtype() == first.dtype();
  if (same_shape && at::allclose(now, first, options_.tolerance, options_.tolerance,
                                 /*equal_nan=*/true)) {
    return absl::OkStatus();
  }
  const auto differing = same_shape
                             ? at::isclose(now, first, options_.tolerance, options_.tolerance, true)
                                   .logical_not()
                                   .sum()
                                   .item<int64_t>()
                             : now.numel();
  return absl::FailedPreconditionError(
      absl::StrCat("recomputed, ", differing, " of ", now.numel(),
                   " numbers of its output differ from its ", "first run's",
                   same_shape && now.is_floating_point()
                       ? absl::StrCat(" by up to ", (now - first).abs().max().item<double>())
                       : "",
                   ": declare it no_recompute, or make it compute the same twice"));
}

absl::Status TorchStages::Backward(const BackwardCall& call) {
  const int l = call.stage;
  return Named(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckBackward(l));
    const at::ThreadLocalStateGuard callers(*callers_);
    const StreamGuard on(options_.device, call.stream);
    const auto index = static_cast<size_t>(l);
    if (l > length()) {
      gradients_[index] = at::ones_like(Value(l).Output());
      loss_is_done_ = true;
    }
    at::Tensor input_gradient;
    if (gradients_[index].defined() && !Value(l).graph.empty()) {
      input_gradient = Value(l).graph.Backward(gradients_[index]);
    }
    gradients_[index].reset();
    gradients_[index - 1] = std::move(input_gradient);
    Drop(l);
    if (!Value(l - 1).saved()) Drop(l - 1);
    return absl::OkStatus();
  });
}

absl::Status TorchStages::End(DeviceSpan /*input_gradient*/, void* /*stream*/) {
  return TorchGuarded([&] {
    input_gradient_ = std::exchange(gradients_[0], {});
    Abandon();
    return absl::OkStatus();
  });
}

absl::Status TorchStages::CopyToHost(int l, PinnedSpan to, void* stream) {
  return Named(l, [&] {
    const StreamGuard on(options_.device, stream);
    return Value(l).CopyToHost(to, options_.granularity);
  });
}

absl::Status TorchStages::Release(int l) {
  return Named(l, [&]() -> absl::Status {
    const bool shared = Value(l).IsShared();
    Value(l).Release();
    if (!shared || l == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "something else keeps its value on the device: its chain must say no_offload");
  });
}

absl::Status TorchStages::CopyToDevice(int l, PinnedSpan from, void* stream) {
  return Named(l, [&] {
    {
      // Memory belongs to the queue that computes; the copy has already waited for what it freed.
      const StreamGuard on(options_.device, compute_stream_);
      Value(l).Allocate();
    }
    const StreamGuard on(options_.device, stream);
    return Value(l).CopyFromHost(from, options_.granularity);
  });
}

void TorchStages::Abandon() {
  for (HeldValue& value : values_) value = HeldValue();
  for (at::Tensor& gradient : gradients_) gradient.reset();
  for (at::Tensor& output : first_outputs_) output.reset();
  for (Replay& replay : replays_) replay.Forget();
  loss_is_done_ = false;
}

}  // namespace stowage

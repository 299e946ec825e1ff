// Every value is a HeldValue: storages without tensors. stage_forward.cc has the invariants of one
// forward, held_value.h those of memory.
#include "client/torch/stages/torch_stages.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/torch/base/stream_guard.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/stages/stage_forward.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

TorchOptions WithIndex(TorchOptions options) {
  if (!options.device.is_cpu() && !options.device.has_index()) options.device.set_index(0);
  return options;
}

// True where two tensors differ; NaN equals NaN.
at::Tensor Differing(const at::Tensor& one, const at::Tensor& other, double tolerance) {
  return at::isclose(one, other, tolerance, tolerance, /*equal_nan=*/true).logical_not();
}

// The tensors of all modules, each once: stages may share parameters.
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

TorchStages::TorchStages(std::vector<TorchStage> stages, const TorchOptions& options)
    : stages_(std::move(stages)), options_(WithIndex(options)), verifies_(options.verifies) {
  TorchStage loss{.name = "loss"};
  if (options_.joins_loss) {
    before_loss_ = std::move(stages_.back());
    stages_.pop_back();
    loss = *before_loss_;
    loss.forward = nullptr;
    loss.tuple_forward = nullptr;
    loss.saves.clear();  // nothing reads them
    loss.name += "..loss";
  }
  const size_t values = stages_.size() + 2;
  values_.resize(values);
  gradients_.resize(values);
  recorded_.resize(values);
  kept_.resize(values);
  first_outputs_.resize(values);
  shared_.resize(values);
  passed_bytes_.resize(values);
  gradient_parts_.resize(values);
  stages_.push_back(std::move(loss));
  borders_.emplace(stages_);
  replays_.emplace_back(nullptr, options_.device);  // of value 0, which no stage computes
  for (const TorchStage& stage : stages_) replays_.emplace_back(stage.module, options_.device);
}

std::vector<at::Tensor> TorchStages::Parameters() const {
  return Distinct(stages_, [](torch::nn::Module& module) { return module.parameters(); });
}

std::vector<at::Tensor> TorchStages::Buffers() const {
  return Distinct(stages_, [](torch::nn::Module& module) { return module.buffers(); });
}

void TorchStages::Feed(TorchInput input, TorchLoss loss) {
  input_ = std::move(input);
  TorchStage& last = stages_.back();
  if (loss == nullptr || !before_loss_.has_value()) {
    last.forward = std::move(loss);
    last.tuple_forward = nullptr;
  } else {
    last.tuple_forward =
        JoinedForward({*before_loss_, {.name = "loss", .forward = std::move(loss)}}, last.reads);
  }
  feeder_state_.emplace();
}

void TorchStages::FeedAs(const TorchStages& other) {
  input_ = other.input_;
  stages_.back().forward = other.stages_.back().forward;
  stages_.back().tuple_forward = other.stages_.back().tuple_forward;
  feeder_state_ = other.feeder_state_;
}

int64_t TorchStages::ValueBytes(int l) const { return Value(l).Bytes(options_.granularity); }

// A gradient may be a view of a larger tensor, so its storage counts.
int64_t TorchStages::GradientBytes(int l) const {
  HeldValue held;
  for (const at::Tensor& gradient : gradients_[static_cast<size_t>(l)]) {
    if (gradient.defined()) held.Hold(gradient);
  }
  return held.Bytes(options_.granularity);
}

void TorchStages::SetSaveOptions(int l, std::vector<KeptOperators> options) {
  stages_[static_cast<size_t>(l) - 1].save_options = std::move(options);
}

// Kept results and filled places share the value's memory.
void TorchStages::Drop(int l) {
  const auto index = static_cast<size_t>(l);
  Value(l) = HeldValue();
  if (!kept_[index].has_value()) return;
  kept_[index].reset();
  recorded_[index].reset();
}

void TorchStages::SetOutput(int l, const StageOutput& output) {
  Drop(l);
  recorded_[static_cast<size_t>(l)].reset();  // it keeps what its last replay has saved
  Value(l).HoldOutput(output);
}

void TorchStages::SetGradients(int l, Tensors gradients) {
  gradients_[static_cast<size_t>(l)] = std::move(gradients);
  loss_is_done_ = true;
}

bool TorchStages::NeedsInput(int l) const {
  return Value(l).reads_input || !HoldsSavedTensorsOnly(Value(l).graph, constants_);
}

std::string TorchStages::WorkOf(int l) const {
  std::string work = Value(l).graph.Work();
  if (!work.empty()) absl::StrAppend(&work, "; ", ValueBytes(l - 1), " to ", ValueBytes(l));
  return work;
}

void TorchStages::FindConstants() {
  constants_.clear();
  for (size_t l = 1; l <= stages_.size(); ++l) {
    const std::shared_ptr<torch::nn::Module>& module = stages_[l - 1].module;
    if (module == nullptr) continue;
    for (const at::Tensor& buffer : module->buffers())
      constants_.emplace(StorageOf(buffer), Constant::kBuffer);
    for (const at::Tensor& parameter : module->parameters()) {
      constants_[StorageOf(parameter)] = Constant::kParameter;
    }
  }
  for (const auto& [name, tensor] : input_.sides) {
    if (tensor.has_storage()) constants_.emplace(StorageOf(tensor), Constant::kSideInput);
  }
}

absl::Status TorchStages::CheckFed() const {
  const at::Tensor& input = input_.tensor;
  if (!input.defined()) return absl::FailedPreconditionError("no input: Feed() it first");
  if (!IsOnDevice(input, options_.device)) {
    return absl::InvalidArgumentError(absl::StrCat("the input is on ", input.device().str(),
                                                   ", but the network on ", options_.device.str()));
  }
  for (const auto& [name, tensor] : input_.sides) {
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

absl::Status TorchStages::Begin(void* stream) {
  return TorchGuarded([&]() -> absl::Status {
    Abandon();
    RETURN_IF_ERROR(CheckFed());
    compute_stream_ = stream;
    WaitForCaller(options_.device, stream);
    // Casts of weights that autocast has cached on this thread are from before the optimizer's
    // step.
    at::autocast::clear_cache();
    FindConstants();
    at::Tensor input = std::exchange(input_.tensor, {});
    const bool differentiable = input.requires_grad();
    input = input.detach();
    // A view of a larger tensor would keep all of its storage.
    if (input.storage().nbytes() > input.nbytes()) input = input.clone();
    input_stays_ = input.storage().use_count() > 1;
    SetOutput(0, {{input}, {differentiable}, {0}});
    return absl::OkStatus();
  });
}

absl::Status TorchStages::NameStage(int l, const std::function<absl::Status()>& call) const {
  absl::Status status = TorchGuarded(call);
  if (status.ok()) return status;
  const bool known =
      l >= 1 && l <= length() + 1 && !stages_[static_cast<size_t>(l) - 1].name.empty();
  return {status.code(),
          absl::StrCat(known ? stages_[static_cast<size_t>(l) - 1].name : absl::StrCat("stage ", l),
                       ": ", status.message())};
}

// A plan of another network shows as a stage number out of range or an input that is not live.
absl::Status TorchStages::OtherNetwork() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the plan is of another network than this one of ", length(), " stages"));
}

absl::Status TorchStages::CheckForward(int l) const {
  if (l >= 1 && l <= length() + 1 && Value(l - 1).live()) return absl::OkStatus();
  return OtherNetwork();
}

absl::Status TorchStages::CheckBackward(int l) const {
  if (l < 1 || l > length() + 1) return OtherNetwork();
  const bool has_input = Value(l - 1).live() || !Value(l).reads_input;
  if (has_input && Value(l).saved() && (l > length() || loss_is_done_)) return absl::OkStatus();
  return OtherNetwork();
}

// What a recomputation is compared by is its output, so that none ends early meanwhile.
RecordedGraph* TorchStages::RecordedFor(const ForwardCall& call) {
  const auto index = static_cast<size_t>(call.stage);
  std::optional<RecordedGraph>& recorded = recorded_[index];
  if (measured_operators_ != nullptr) {
    kept_[index].emplace(KeptOperators(), std::exchange(measured_operators_, nullptr));
    return &recorded.emplace();
  }
  if (call.save_option > 0) {
    const std::vector<KeptOperators>& options = stages_[index - 1].save_options;
    kept_[index].emplace(options[static_cast<size_t>(call.save_option) - 1], nullptr);
    return &recorded.emplace();
  }
  if (!verifies_ && call.replayed) return &recorded.emplace();
  if (!verifies_ && call.replay && recorded.has_value()) return &*recorded;
  recorded.reset();  // it keeps what its last replay has saved
  return nullptr;
}

absl::Status TorchStages::CheckSaveOption(const ForwardCall& call) const {
  if (call.save_option == 0) return absl::OkStatus();
  const TorchStage& stage = this->stages_[static_cast<size_t>(call.stage) - 1];
  if (stage.no_recompute) {
    return absl::FailedPreconditionError("may not run twice, but the plan saves it by an option");
  }
  if (static_cast<size_t>(call.save_option) <= stage.save_options.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("has ", stage.save_options.size(), " save options, but the plan saves it by ",
                   "number ", call.save_option, ": profile again"));
}

absl::Status TorchStages::RunStage(int l, OperationKind kind, RecordedGraph* recorded, Run run) {
  const auto index = static_cast<size_t>(l);
  const TorchStage& stage = stages_[index - 1];
  const std::function<Tensors(const Tensors&)> forward = [&](const Tensors& value) {
    return borders_->Run(stage, l, value, input_.sides);
  };
  return StageForward({.device = options_.device,
                       .stage = l,
                       .name = stage.name,
                       .kind = kind,
                       .forward = forward,
                       .sides = input_.sides,
                       .constants = constants_,
                       .input = Value(l - 1),
                       .value = Value(l),
                       .active_stage = active_,
                       .recorded = recorded,
                       .kept = kept_[index].has_value() ? &*kept_[index] : nullptr,
                       .reruns = run == Run::kRerun})
      .Run();
}

absl::Status TorchStages::Forward(const ForwardCall& call) {
  const int l = call.stage;
  return NameStage(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckForward(l));
    const auto index = static_cast<size_t>(l);
    const TorchStage& stage = stages_[index - 1];
    RETURN_IF_ERROR(CheckSaveOption(call));
    if (!HasForward(stage)) return absl::InvalidArgumentError("has no forward: it is no function");
    if (call.run > 0 && stage.no_recompute) {
      return absl::FailedPreconditionError("may not run twice, but the plan recomputes it");
    }
    const at::ThreadLocalStateGuard feeder(*feeder_state_);
    const StreamGuard on(options_.device, call.stream);
    const bool saves = Saves(call.kind);
    Drop(l);
    absl::Status status;
    Replay& replay = replays_[index];
    if (call.run > 0 && replay.missed_buffer()) {
      return absl::FailedPreconditionError(
          "has written a buffer for the first time in this step, and cannot be recomputed as it "
          "was; the next step can be run");
    }
    RecordedGraph* const recorded = RecordedFor(call);
    const bool by_option = kept_[index].has_value();
    const auto run = [&] { status = RunStage(l, call.kind, recorded, Run::kForward); };
    active_ = l;
    const auto inactive = absl::MakeCleanup([this] { active_ = 0; });
    if (call.run > 0) {
      replay.Again(run);
    } else if (call.repeated || by_option) {
      replay.First(run);
    } else {
      run();
    }
    RETURN_IF_ERROR(status);
    // A graph that holds other memory must not outlive the run that no value counts it in.
    if (recorded != nullptr && !saves && !HoldsSavedTensorsOnly(recorded->graph(), constants_)) {
      recorded_[index].reset();
    }
    if (by_option && !HoldsSavedTensorsOnly(Value(l).graph, constants_)) {
      return absl::FailedPreconditionError(
          "keeps memory beside what autograd saves, and is saved by an option: profile again");
    }
    if (saves && (recorded == nullptr || by_option)) {
      // Everything of this run but the value is gone now; another reference is the stage's own.
      if (Value(l).IsShared(values_)) shared_[index] = true;
      passed_bytes_[index] = Value(l).PassedBytes(options_.granularity);
    }
    if (saves && Discards(call.kind) && Value(l).reads_input) {
      return absl::FailedPreconditionError(
          "its backward reads its input, of which its chain says input_unread: profile again");
    }
    if (Discards(call.kind)) Drop(l - 1);
    if (verifies_ && (call.repeated || call.run > 0)) RETURN_IF_ERROR(Verify(l, call.run));
    if (l <= length()) return absl::OkStatus();
    loss_ = Value(l).Output().tensors.front().clone();
    if (loss_.numel() == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("has ", loss_.numel(), " numbers, not one"));
  });
}

// The first run's output is kept on the host; later runs are compared with it there.
absl::Status TorchStages::Verify(int l, int run) {
  std::vector<FirstOutput>& first = first_outputs_[static_cast<size_t>(l)];
  if (run == 0) first.clear();
  int64_t numbers = 0;
  int64_t differing = 0;
  std::string most;
  const Tensors outputs = Value(l).Output().tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor now = outputs[i].to(at::kCPU).contiguous();
    numbers += now.numel();
    if (run == 0) {
      const auto* const data = static_cast<const std::byte*>(now.data_ptr());
      first.push_back({ViewOf(now, 0), {data, data + now.nbytes()}});
    } else {
      differing += i < first.size() ? CountDiffering(now, first[i], &most) : now.numel();
    }
  }
  if (run > 0) ++verified_recomputations_;
  if (differing == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("recomputed, ", differing, " of ", numbers,
                   " numbers of its output differ from its first run's", most,
                   ": declare it no_recompute, or make it compute the same twice"));
}

// Sets `most` to the largest difference, if there is one.
int64_t TorchStages::CountDiffering(const at::Tensor& now, FirstOutput& first,
                                    std::string* most) const {
  if (now.sizes() != first.view.sizes || now.scalar_type() != first.view.type) return now.numel();
  const at::Tensor then = at::from_blob(first.bytes.data(), now.sizes(), now.options());
  const auto differing = Differing(now, then, options_.tolerance).sum().item<int64_t>();
  if (differing > 0 && now.is_floating_point()) {
    *most = absl::StrCat(" by up to ", (now - then).abs().max().item<double>());
  }
  return differing;
}

absl::Status TorchStages::Backward(const BackwardCall& call) {
  const int l = call.stage;
  return NameStage(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckBackward(l));
    const at::ThreadLocalStateGuard feeder(*feeder_state_);
    const StreamGuard on(options_.device, call.stream);
    const auto index = static_cast<size_t>(l);
    active_ = l;
    const auto inactive = absl::MakeCleanup([this] { active_ = 0; });
    if (l > length()) {
      // The backward of the step starts here, with dloss/dloss = 1.
      if (Value(l).graph.empty()) {
        return absl::InvalidArgumentError(
            "needs no gradient: no parameter of a stage, nor the input, takes one");
      }
      gradients_[index] = {at::ones_like(Value(l).Output().tensors.front())};
      loss_is_done_ = true;
    }
    Tensors input_gradients;
    if (!gradients_[index].empty() && !Value(l).graph.empty()) {
      if (kept_[index].has_value()) RETURN_IF_ERROR(Rerun(l));
      const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
      // As in a backward without stages, memory is free from the operation that reads it last.
      Value(l).LeaveToReaders();
      recorded_[index].reset();
      input_gradients = Value(l).graph.Backward(gradients_[index]);
    }
    gradient_parts_[index] = PartsOf(input_gradients, gradients_[index]);
    // Drops what BACKWARD drops: δ^l, ā^l, and a^(l-1) unless that is saved.
    gradients_[index].clear();
    gradients_[index - 1] = std::move(input_gradients);
    recorded_[index].reset();
    Drop(l);
    if (!Value(l - 1).saved()) Drop(l - 1);
    return absl::OkStatus();
  });
}

absl::Status TorchStages::Rerun(int l) {
  const auto index = static_cast<size_t>(l);
  if (replays_[index].missed_buffer()) {
    return absl::FailedPreconditionError(
        "has written a buffer for the first time in this step, and cannot be rerun as it was; the "
        "next step can be run");
  }
  absl::Status status;
  replays_[index].Again(
      [&] { status = RunStage(l, OperationKind::kForwardSave, &*recorded_[index], Run::kRerun); });
  kept_[index].reset();
  return status;
}

std::vector<GradientPart> TorchStages::PartsOf(const Tensors& inputs,
                                               const Tensors& outputs) const {
  std::vector<GradientPart> parts(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    HeldValue held;
    held.Hold(inputs[i]);
    parts[i] = {held.Bytes(options_.granularity), StorageOf(inputs[i])};
    const auto same = std::find_if(outputs.begin(), outputs.end(), [&](const at::Tensor& output) {
      return output.defined() && StorageOf(output) == parts[i].storage;
    });
    if (same != outputs.end()) parts[i].passed = static_cast<size_t>(same - outputs.begin());
  }
  return parts;
}

absl::Status TorchStages::End(void* /*stream*/) {
  return TorchGuarded([&] {
    input_gradient_ = gradients_[0].empty() ? at::Tensor() : gradients_[0].front();
    at::autocast::clear_cache();
    Abandon();
    return absl::OkStatus();
  });
}

absl::Status TorchStages::CopyToHost(int l, PinnedSpan to, void* stream) {
  if (Stays(l)) return absl::OkStatus();
  return NameStage(l, [&] {
    const StreamGuard on(options_.device, stream);
    return Value(l).CopyToHost(to, options_.granularity);
  });
}

absl::Status TorchStages::Release(int l) {
  if (Stays(l)) return absl::OkStatus();
  return NameStage(l, [&]() -> absl::Status {
    // Memory that another object references stays allocated, and the schedule would not fit.
    const bool shared = Value(l).IsShared(values_);
    Value(l).Release();
    if (!shared || l == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "something else keeps its value on the device: its chain must say no_offload");
  });
}

absl::Status TorchStages::CopyToDevice(int l, PinnedSpan from, void* stream) {
  if (Stays(l)) return absl::OkStatus();
  return NameStage(l, [&] {
    {
      // Allocated for the compute stream, which will free it. The copy's queue has already waited
      // for the operations that freed this memory.
      const StreamGuard on(options_.device, compute_stream_);
      Value(l).Allocate();
    }
    const StreamGuard on(options_.device, stream);
    return Value(l).CopyFromHost(from, options_.granularity);
  });
}

void TorchStages::Abandon() {
  for (HeldValue& value : values_) value = HeldValue();
  for (std::optional<RecordedGraph>& recorded : recorded_) recorded.reset();
  for (std::optional<KeptResults>& kept : kept_) kept.reset();
  for (Tensors& gradients : gradients_) gradients.clear();
  for (std::vector<FirstOutput>& outputs : first_outputs_) outputs.clear();
  for (Replay& replay : replays_) replay.EndStep();
  loss_is_done_ = false;
}

}  // namespace stowage

// Every value is a HeldValue: storages without tensors. stage_forward.cc has the invariants of one
// forward, held_value.h those of memory.
#include "client/torch/stages/torch_stages.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

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

}  // namespace

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
  stages_.push_back(std::move(loss));
  borders_.emplace(stages_);
  states_.reserve(stages_.size() + 1);
  states_.emplace_back(nullptr, options_.device);
  for (const TorchStage& stage : stages_) states_.emplace_back(stage.module, options_.device);
}

std::vector<at::Tensor> TorchStages::Parameters() const { return ParametersOf(stages_); }

std::vector<at::Tensor> TorchStages::Buffers() const { return BuffersOf(stages_); }

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

void TorchStages::SetSaveOptions(int l, std::vector<KeptOperators> options) {
  stages_[static_cast<size_t>(l) - 1].save_options = std::move(options);
}

absl::Status TorchStages::Begin(void* stream) {
  return TorchGuarded([&]() -> absl::Status {
    Abandon();
    RETURN_IF_ERROR(CheckInput(input_, options_.device));
    compute_stream_ = stream;
    WaitForCaller(options_.device, stream);
    // Casts of weights that autocast has cached on this thread are from before the optimizer's
    // step.
    at::autocast::clear_cache();
    // Every step, since parameters may be frozen, replaced or moved in between.
    constants_ = ConstantsOf(stages_, input_.sides);
    at::Tensor input = std::exchange(input_.tensor, {});
    const bool differentiable = input.requires_grad();
    input = input.detach();
    // A view of a larger tensor would keep all of its storage.
    if (input.storage().nbytes() > input.nbytes()) input = input.clone();
    input_stays_ = input.storage().use_count() > 1;
    state(0).SetOutput({{input}, {differentiable}, {0}});
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

absl::Status TorchStages::CheckForward(const ForwardCall& call) const {
  const int l = call.stage;
  if (l < 1 || l > length() + 1 || !state(l - 1).value.live()) return OtherNetwork();
  RETURN_IF_ERROR(CheckSaveOption(call));
  if (!HasForward(stage(l))) {
    return absl::InvalidArgumentError("has no forward: it is no function");
  }
  if (call.run == 0) return absl::OkStatus();
  if (stage(l).no_recompute) {
    return absl::FailedPreconditionError("may not run twice, but the plan recomputes it");
  }
  if (!state(l).replay.missed_buffer()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "has written a buffer for the first time in this step, and cannot be recomputed as it was; "
      "the next step can be run");
}

absl::Status TorchStages::CheckSaveOption(const ForwardCall& call) const {
  if (call.save_option == 0) return absl::OkStatus();
  const TorchStage& stage = this->stage(call.stage);
  if (stage.no_recompute) {
    return absl::FailedPreconditionError("may not run twice, but the plan saves it by an option");
  }
  if (static_cast<size_t>(call.save_option) <= stage.save_options.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("has ", stage.save_options.size(), " save options, but the plan saves it by ",
                   "number ", call.save_option, ": profile again"));
}

absl::Status TorchStages::CheckBackward(int l) const {
  if (l < 1 || l > length() + 1) return OtherNetwork();
  const StageState& state = this->state(l);
  const bool has_input = this->state(l - 1).value.live() || !state.value.reads_input;
  const bool has_gradients = l > length() || state.gradients.has_value();
  if (has_input && has_gradients && state.value.saved()) return absl::OkStatus();
  return OtherNetwork();
}

// What a recomputation is compared by is its output, so that none ends early meanwhile.
RecordedGraph* TorchStages::RecordedFor(const ForwardCall& call) {
  StageState& state = this->state(call.stage);
  if (state.measured_operators != nullptr) {
    state.kept.emplace(KeptOperators(), std::exchange(state.measured_operators, nullptr));
    return &state.recorded.emplace();
  }
  if (call.save_option > 0) {
    const std::vector<KeptOperators>& options = stage(call.stage).save_options;
    state.kept.emplace(options[static_cast<size_t>(call.save_option) - 1], nullptr);
    return &state.recorded.emplace();
  }
  if (!verifies_ && call.replayed) return &state.recorded.emplace();
  if (!verifies_ && call.replay && state.recorded.has_value()) return &*state.recorded;
  state.recorded.reset();  // it keeps what its last replay has saved
  return nullptr;
}

absl::Status TorchStages::RunStage(int l, OperationKind kind, RecordedGraph* recorded, Run run) {
  const TorchStage& stage = this->stage(l);
  StageState& state = this->state(l);
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
                       .input = this->state(l - 1).value,
                       .value = state.value,
                       .active_stage = active_,
                       .recorded = recorded,
                       .kept = state.kept.has_value() ? &*state.kept : nullptr,
                       .reruns = run == Run::kRerun})
      .Run();
}

absl::Status TorchStages::Forward(const ForwardCall& call) {
  const int l = call.stage;
  return NameStage(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckForward(call));
    const at::ThreadLocalStateGuard feeder(*feeder_state_);
    const StreamGuard on(options_.device, call.stream);
    state(l).Drop();
    RecordedGraph* const recorded = RecordedFor(call);
    RETURN_IF_ERROR(RunForward(call, recorded));
    RETURN_IF_ERROR(CheckValue(call, recorded));
    if (Discards(call.kind)) state(l - 1).Drop();
    if (verifies_ && (call.repeated || call.run > 0)) RETURN_IF_ERROR(Verify(call));
    return l > length() ? TakeLoss() : absl::OkStatus();
  });
}

absl::Status TorchStages::RunForward(const ForwardCall& call, RecordedGraph* recorded) {
  StageState& state = this->state(call.stage);
  absl::Status status;
  const auto run = [&] { status = RunStage(call.stage, call.kind, recorded, Run::kForward); };
  active_ = call.stage;
  const auto inactive = absl::MakeCleanup([this] { active_ = 0; });
  if (call.run > 0) {
    state.replay.Again(run);
  } else if (call.repeated || state.kept.has_value()) {
    state.replay.First(run);
  } else {
    run();
  }
  return status;
}

absl::Status TorchStages::CheckValue(const ForwardCall& call, RecordedGraph* recorded) {
  StageState& state = this->state(call.stage);
  const bool saves = Saves(call.kind);
  const bool by_option = state.kept.has_value();
  // A graph that holds other memory must not outlive the run that no value counts it in.
  if (recorded != nullptr && !saves && !HoldsSavedTensorsOnly(recorded->graph(), constants_)) {
    state.recorded.reset();
  }
  if (by_option && !HoldsSavedTensorsOnly(state.value.graph, constants_)) {
    return absl::FailedPreconditionError(
        "keeps memory beside what autograd saves, and is saved by an option: profile again");
  }
  if (saves && (recorded == nullptr || by_option)) {
    // Everything of this run but the value is gone now; another reference is the stage's own.
    if (IsShared(call.stage)) state.shared = true;
    state.passed_bytes = state.value.PassedBytes(options_.granularity);
  }
  if (saves && Discards(call.kind) && state.value.reads_input) {
    return absl::FailedPreconditionError(
        "its backward reads its input, of which its chain says input_unread: profile again");
  }
  return absl::OkStatus();
}

bool TorchStages::IsShared(int l) const {
  std::vector<const HeldValue*> values;
  values.reserve(states_.size());
  for (const StageState& state : states_) values.push_back(&state.value);
  return state(l).value.IsShared(values);
}

absl::Status TorchStages::Verify(const ForwardCall& call) {
  StageState& state = this->state(call.stage);
  const Tensors output = state.value.Output().tensors;
  if (call.run == 0) {
    state.first_output.Keep(output);
    return absl::OkStatus();
  }
  ++verified_recomputations_;
  return state.first_output.Compare(output, options_.tolerance);
}

absl::Status TorchStages::TakeLoss() {
  loss_ = state(length() + 1).value.Output().tensors.front().clone();
  if (loss_.numel() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("has ", loss_.numel(), " numbers, not one"));
}

absl::Status TorchStages::Backward(const BackwardCall& call) {
  const int l = call.stage;
  return NameStage(l, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckBackward(l));
    const at::ThreadLocalStateGuard feeder(*feeder_state_);
    const StreamGuard on(options_.device, call.stream);
    StageState& state = this->state(l);
    StageState& before = this->state(l - 1);
    active_ = l;
    const auto inactive = absl::MakeCleanup([this] { active_ = 0; });
    if (l > length()) {
      // The backward of the step starts here, with dloss/dloss = 1.
      if (state.value.graph.empty()) {
        return absl::InvalidArgumentError(
            "needs no gradient: no parameter of a stage, nor the input, takes one");
      }
      state.gradients = Tensors{at::ones_like(state.value.Output().tensors.front())};
    }
    Tensors input_gradients;
    if (!state.gradients->empty() && !state.value.graph.empty()) {
      if (state.kept.has_value()) RETURN_IF_ERROR(Rerun(l));
      const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
      // As in a backward without stages, memory is free from the operation that reads it last.
      state.value.LeaveToReaders();
      state.recorded.reset();
      input_gradients = state.value.graph.Backward(*state.gradients);
    }
    state.gradient_parts = GradientPartsOf(input_gradients, *state.gradients, options_.granularity);
    // Drops what BACKWARD drops: δ^l, ā^l, and a^(l-1) unless that is saved.
    state.gradients.reset();
    before.gradients = std::move(input_gradients);
    state.recorded.reset();
    state.Drop();
    if (!before.value.saved()) before.Drop();
    return absl::OkStatus();
  });
}

absl::Status TorchStages::Rerun(int l) {
  StageState& state = this->state(l);
  if (state.replay.missed_buffer()) {
    return absl::FailedPreconditionError(
        "has written a buffer for the first time in this step, and cannot be rerun as it was; the "
        "next step can be run");
  }
  absl::Status status;
  state.replay.Again(
      [&] { status = RunStage(l, OperationKind::kForwardSave, &*state.recorded, Run::kRerun); });
  state.kept.reset();
  return status;
}

absl::Status TorchStages::End(void* /*stream*/) {
  return TorchGuarded([&] {
    const Tensors gradients = std::move(state(0).gradients).value_or(Tensors());
    input_gradient_ = gradients.empty() ? at::Tensor() : gradients.front();
    at::autocast::clear_cache();
    Abandon();
    return absl::OkStatus();
  });
}

absl::Status TorchStages::CopyToHost(int l, PinnedSpan to, void* stream) {
  if (Stays(l)) return absl::OkStatus();
  return NameStage(l, [&] {
    const StreamGuard on(options_.device, stream);
    return state(l).value.CopyToHost(to, options_.granularity);
  });
}

absl::Status TorchStages::Release(int l) {
  if (Stays(l)) return absl::OkStatus();
  return NameStage(l, [&]() -> absl::Status {
    // Memory that another object references stays allocated, and the schedule would not fit.
    const bool shared = IsShared(l);
    state(l).value.Release();
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
      state(l).value.Allocate();
    }
    const StreamGuard on(options_.device, stream);
    return state(l).value.CopyFromHost(from, options_.granularity);
  });
}

void TorchStages::Abandon() {
  for (StageState& state : states_) state.EndStep();
}

}  // namespace stowage

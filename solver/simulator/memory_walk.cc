// Each operation is handled in three steps: check its preconditions (the table and "Errors" of
// solver/README.md), account for its memory, then change the state. Invariants between operations:
//   device_bytes_ = Σ bytes of values on the device + |δ^gradient_|
//   saved_bytes_ = the part of that sum that is in form kSaved
//   host_after_bytes_ = Σ bytes of values with place kDeviceAndHost or kHost
// A value has at most one form, so a stage is either a^l or ā^l, never both.
#include "solver/simulator/memory_walk.h"

#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

}  // namespace

MemoryWalk::MemoryWalk(const Chain& chain, const Platform& platform,
                       const std::vector<int>* numbers)
    : chain_(chain),
      platform_(platform),
      numbers_(numbers),
      values_(static_cast<size_t>(chain.length()) + 2),
      gradient_(chain.length() + 1),
      device_bytes_(chain.input_bytes) {
  values_[0].form = Form::kOutput;
}

absl::Status MemoryWalk::Execute(const Operation& operation) {
  const int l = operation.stage;
  // Transfers may also name value 0, the input.
  const int first = IsCompute(operation.kind) ? 1 : 0;
  if (l < first || l > chain_.length() + 1) {
    return Invalid(absl::StrCat("there is no such ", first == 1 ? "stage" : "value",
                                "; they go from ", first, " to ", Number(chain_.length() + 1),
                                ", the loss"));
  }
  if (operation.save_option != 0) RETURN_IF_ERROR(CheckSaveOption(operation));
  // OFFLOAD adds to this below. PREFETCH frees its copy for the next operation only.
  host_bytes_ = host_after_bytes_;
  switch (operation.kind) {
    case OperationKind::kForwardSave:
    case OperationKind::kForwardCheckpoint:
    case OperationKind::kForwardDiscard:
    case OperationKind::kForwardSaveDiscard:
      return Forward(operation);
    case OperationKind::kBackward:
      return Backward(l);
    case OperationKind::kOffload:
      return Offload(l);
    case OperationKind::kRelease:
      return Release(l);
    case OperationKind::kPrefetch:
      return Prefetch(l);
  }
  return Invalid("is of an unknown kind");
}

absl::Status MemoryWalk::CheckSaveOption(const Operation& operation) const {
  if (!Saves(operation.kind)) {
    return Invalid("has a save_option, which only FORWARD_SAVE and FORWARD_SAVE_DISCARD have");
  }
  const int last = chain_.stage(operation.stage).last_option();
  if (operation.save_option >= 0 && operation.save_option <= last) return absl::OkStatus();
  return Invalid(absl::StrCat(StageText(operation.stage), " has no such save_option; they go from ",
                              "0, its own way, to ", last));
}

absl::Status MemoryWalk::CheckForward(OperationKind kind, int l) const {
  const Stage& stage = chain_.stage(l);
  const bool saves = Saves(kind);
  if (!saves && l == chain_.length() + 1) return Invalid("the loss can only run as FORWARD_SAVE");
  // Backwards run from the loss down, so those above gradient_ are done.
  if (l > gradient_)
    return Invalid(absl::StrCat("the backward of ", StageText(l), " is already done"));
  if (!saves && stage.no_recompute) {
    return Invalid(absl::StrCat(StageText(l), " is no_recompute and can only run as FORWARD_SAVE"));
  }
  if (stage.no_recompute && values_[l].forward_done) {
    return Invalid(absl::StrCat(StageText(l), " is no_recompute and has already run"));
  }
  if (values_[l].form != Form::kNone) {
    return Invalid(absl::StrCat(ValueText(l), " is still live ",
                                OnDevice(l) ? "on the device" : "on the host"));
  }
  // The input must be readable, and FORWARD_DISCARD must be allowed to drop it.
  RETURN_IF_ERROR(NeedOnDevice(l - 1));
  if (!Discards(kind)) return absl::OkStatus();
  if (saves) {
    if (!stage.input_unread) {
      return Invalid(absl::StrCat("would drop ", ValueText(l - 1), ", which the backward of ",
                                  StageText(l), " reads: the stage is not input_unread"));
    }
    if (values_[l - 1].form == Form::kSaved) {
      return Invalid(absl::StrCat("would drop ", ValueText(l - 1), ", which is saved for ",
                                  BackwardText(l - 1)));
    }
  } else if (l == 1) {
    return Invalid("would drop the chain's input, which nothing can bring back");
  }
  return MayDrop(l - 1);
}

absl::Status MemoryWalk::Forward(const Operation& operation) {
  const OperationKind kind = operation.kind;
  const int l = operation.stage;
  RETURN_IF_ERROR(CheckForward(kind, l));
  const bool saves = Saves(kind);
  const Stage& stage = chain_.stage(l);
  // The input is still there while the forward runs: a discarding one drops it at the end.
  Account(saves ? stage.SaveNeedBytes(operation.save_option) : stage.OutputNeedBytes());
  values_[l] = {saves ? Form::kSaved : Form::kOutput, Place::kDevice, /*forward_done=*/true,
                static_cast<int8_t>(operation.save_option)};
  Take(l);
  if (Discards(kind)) Drop(l - 1);
  return absl::OkStatus();
}

absl::Status MemoryWalk::CheckBackward(int l) const {
  if (l > gradient_)
    return Invalid(absl::StrCat("the backward of ", StageText(l), " is already done"));
  if (l < gradient_) {
    return Invalid(
        absl::StrCat("gradient ", Number(l), " is missing: ", BackwardText(l + 1), " has not run"));
  }
  RETURN_IF_ERROR(NeedOnDevice(l));
  if (values_[l].form != Form::kSaved) {
    return Invalid(absl::StrCat(StageText(l),
                                " left only its output; its backward needs what "
                                "FORWARD_SAVE ",
                                Number(l), " saves"));
  }
  // An input that the backward does not read may be gone, but not be on the host.
  const bool gone = chain_.stage(l).input_unread && values_[l - 1].form == Form::kNone;
  if (!gone) RETURN_IF_ERROR(NeedOnDevice(l - 1));
  RETURN_IF_ERROR(MayDrop(l));
  // ā^(l-1) is kept for BACKWARD l-1; a^(l-1) is dropped.
  return values_[l - 1].form == Form::kOutput ? MayDrop(l - 1) : absl::OkStatus();
}

absl::Status MemoryWalk::Backward(int l) {
  RETURN_IF_ERROR(CheckBackward(l));
  const int64_t added = chain_.gradient_bytes(l - 1);
  Account(added + chain_.stage(l).BackwardOverheadBytes(values_[l].save_option));
  // Both gradients and ā^l exist while the backward runs; δ^l and ā^l are freed at the end.
  device_bytes_ += added - chain_.gradient_bytes(l);
  Drop(l);
  if (values_[l - 1].form == Form::kOutput) Drop(l - 1);
  gradient_ = l - 1;
  return absl::OkStatus();
}

absl::Status MemoryWalk::Offload(int l) {
  if (platform_.offload_bytes_per_second == 0) {
    return Invalid("the platform's offload_bytes_per_second is 0: nothing can be offloaded");
  }
  RETURN_IF_ERROR(NeedOnDevice(l));
  if (l > 0 && chain_.stage(l).no_offload) {
    return Invalid(
        absl::StrCat(StageText(l), " is no_offload: its value may not leave the device"));
  }
  if (values_[l].place == Place::kDeviceAndHost) {
    return Invalid(absl::StrCat(ValueText(l), " already has a copy on the host"));
  }
  Account(0);
  values_[l].place = Place::kDeviceAndHost;
  host_bytes_ += Bytes(l);
  host_after_bytes_ = host_bytes_;
  return absl::OkStatus();
}

absl::Status MemoryWalk::Release(int l) {
  RETURN_IF_ERROR(NeedOnDevice(l));
  if (values_[l].place != Place::kDeviceAndHost) {
    return Invalid(
        absl::StrCat(ValueText(l), " has no copy on the host; OFFLOAD ", Number(l), " first"));
  }
  Account(0);
  // Memory comes back at the RELEASE, in program order, whenever the copy ends.
  Free(l);
  values_[l].place = Place::kHost;
  return absl::OkStatus();
}

absl::Status MemoryWalk::Prefetch(int l) {
  if (platform_.prefetch_rate() == 0) {
    return Invalid("the platform's prefetch_bytes_per_second is 0: nothing can be brought back");
  }
  if (values_[l].form == Form::kNone) {
    return Invalid(absl::StrCat(ValueText(l), " has no copy on the host: it ", Whereabouts(l)));
  }
  if (OnDevice(l)) return Invalid(absl::StrCat(ValueText(l), " is already on the device"));
  // The device memory is taken at once, when the copy starts.
  Account(Bytes(l));
  Take(l);
  values_[l].place = Place::kDevice;
  host_after_bytes_ -= Bytes(l);
  return absl::OkStatus();
}

absl::Status MemoryWalk::Finish() const {
  if (gradient_ == 0) return absl::OkStatus();
  return Invalid(
      absl::StrCat("the last gradient is missing: ", BackwardText(gradient_), " has not run"));
}

std::vector<Holding> MemoryWalk::HoldingsDuring(const Operation& operation) const {
  std::vector<Holding> out;
  const auto add = [&out](Holding::Kind kind, int stage, int64_t bytes) {
    if (bytes > 0) out.push_back({kind, stage, bytes});
  };
  const int l = operation.stage;
  for (int v = 0; v <= chain_.length() + 1; ++v) {
    // A PREFETCH occupies device memory from its start.
    const bool comes_back = operation.kind == OperationKind::kPrefetch && v == l;
    if (!OnDevice(v) && !comes_back) continue;
    add(values_[v].form == Form::kSaved ? Holding::Kind::kSaved : Holding::Kind::kOutput, v,
        Bytes(v));
  }
  // What the operation itself adds, beside the values and the current gradient.
  add(Holding::Kind::kGradient, gradient_, chain_.gradient_bytes(gradient_));
  if (operation.kind == OperationKind::kBackward) {
    add(Holding::Kind::kGradient, l - 1, chain_.gradient_bytes(l - 1));
    add(Holding::Kind::kOverhead, l, chain_.stage(l).BackwardOverheadBytes(values_[l].save_option));
  } else if (Saves(operation.kind)) {
    add(Holding::Kind::kSaved, l, chain_.stage(l).SavedBytes(operation.save_option));
    add(Holding::Kind::kOverhead, l, chain_.stage(l).SaveOverheadBytes(operation.save_option));
  } else if (IsForward(operation.kind)) {
    add(Holding::Kind::kOutput, l, chain_.output_bytes(l));
    add(Holding::Kind::kOverhead, l, chain_.stage(l).forward_overhead_bytes);
  }
  return out;
}

MemoryByKind MemoryWalk::BytesDuring(const Operation& operation) const {
  const int l = operation.stage;
  MemoryByKind bytes;
  bytes.saved_bytes = saved_bytes_;
  bytes.gradient_bytes = chain_.gradient_bytes(gradient_);
  bytes.output_bytes = device_bytes_ - bytes.saved_bytes - bytes.gradient_bytes;
  if (operation.kind == OperationKind::kBackward) {
    bytes.gradient_bytes += chain_.gradient_bytes(l - 1);
    bytes.overhead_bytes = chain_.stage(l).BackwardOverheadBytes(values_[l].save_option);
  } else if (operation.kind == OperationKind::kPrefetch) {
    (values_[l].form == Form::kSaved ? bytes.saved_bytes : bytes.output_bytes) += Bytes(l);
  } else if (Saves(operation.kind)) {
    bytes.saved_bytes += chain_.stage(l).SavedBytes(operation.save_option);
    bytes.overhead_bytes = chain_.stage(l).SaveOverheadBytes(operation.save_option);
  } else if (IsForward(operation.kind)) {
    bytes.output_bytes += chain_.output_bytes(l);
    bytes.overhead_bytes = chain_.stage(l).forward_overhead_bytes;
  }
  return bytes;
}

absl::Status MemoryWalk::NeedOnDevice(int l) const {
  if (OnDevice(l)) return absl::OkStatus();
  return Invalid(absl::StrCat(ValueText(l), " is not on device: it ", Whereabouts(l)));
}

// A value whose copy is in progress must not be freed before the RELEASE waits for that copy.
absl::Status MemoryWalk::MayDrop(int l) const {
  if (values_[l].place != Place::kDeviceAndHost) return absl::OkStatus();
  return Invalid(absl::StrCat("would drop ", ValueText(l), ", whose OFFLOAD has no RELEASE yet"));
}

std::string MemoryWalk::StageText(int l) const {
  return l == chain_.length() + 1 ? "the loss" : absl::StrCat("stage ", Number(l));
}

std::string MemoryWalk::ValueText(int l) const {
  return absl::StrCat("value ", Number(l), l == chain_.length() + 1 ? " (the loss)" : "");
}

std::string MemoryWalk::BackwardText(int l) const {
  return OperationText({OperationKind::kBackward, Number(l)}, Number(chain_.length() + 1) - 1);
}

absl::string_view MemoryWalk::Whereabouts(int l) const {
  if (values_[l].form != Form::kNone) return "is on the host";
  return values_[l].forward_done || l == 0 ? "was dropped" : "was never computed";
}

bool MemoryWalk::OnDevice(int l) const {
  return values_[l].form != Form::kNone && values_[l].place != Place::kHost;
}

int64_t MemoryWalk::Bytes(int l) const {
  if (values_[l].form != Form::kSaved) return chain_.output_bytes(l);
  return chain_.stage(l).SavedBytes(values_[l].save_option);
}

void MemoryWalk::Take(int l) {
  device_bytes_ += Bytes(l);
  if (values_[l].form == Form::kSaved) saved_bytes_ += Bytes(l);
}

void MemoryWalk::Free(int l) {
  device_bytes_ -= Bytes(l);
  if (values_[l].form == Form::kSaved) saved_bytes_ -= Bytes(l);
}

void MemoryWalk::Drop(int l) {
  Free(l);
  values_[l].form = Form::kNone;
}

void MemoryWalk::Account(int64_t extra_bytes) { memory_bytes_ = device_bytes_ + extra_bytes; }

}  // namespace stowage

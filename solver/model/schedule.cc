#include "solver/model/schedule.h"

#include "absl/strings/str_cat.h"

namespace stowage {

bool Saves(OperationKind kind) {
  return kind == OperationKind::kForwardSave || kind == OperationKind::kForwardSaveDiscard;
}

bool Discards(OperationKind kind) {
  return kind == OperationKind::kForwardDiscard || kind == OperationKind::kForwardSaveDiscard;
}

// The kinds of forward differ only in which values they leave and drop.
bool IsForward(OperationKind kind) {
  return Saves(kind) || Discards(kind) || kind == OperationKind::kForwardCheckpoint;
}

bool IsCompute(OperationKind kind) { return IsForward(kind) || kind == OperationKind::kBackward; }

bool IsReplay(const std::vector<Operation>& operations, size_t index) {
  const Operation& forward = operations[index];
  if (!Saves(forward.kind)) return false;
  for (size_t next = index + 1; next < operations.size(); ++next) {
    const Operation& operation = operations[next];
    if (!IsCompute(operation.kind)) continue;
    return operation.kind == OperationKind::kBackward && operation.stage == forward.stage;
  }
  return false;
}

absl::string_view KindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kForwardSave:
      return "FORWARD_SAVE";
    case OperationKind::kForwardCheckpoint:
      return "FORWARD_CHECKPOINT";
    case OperationKind::kForwardDiscard:
      return "FORWARD_DISCARD";
    case OperationKind::kBackward:
      return "BACKWARD";
    case OperationKind::kOffload:
      return "OFFLOAD";
    case OperationKind::kRelease:
      return "RELEASE";
    case OperationKind::kPrefetch:
      return "PREFETCH";
    case OperationKind::kForwardSaveDiscard:
      return "FORWARD_SAVE_DISCARD";
  }
  return "UNKNOWN";  // not reached: every enumerator is handled above
}

std::string OperationName(const Operation& operation) {
  std::string name = absl::StrCat(KindName(operation.kind), " ");
  if (operation.first() != operation.stage) absl::StrAppend(&name, operation.first(), "-");
  absl::StrAppend(&name, operation.stage);
  if (operation.mode == Mode::kGraph) absl::StrAppend(&name, " graph");
  if (operation.save_option != 0) {
    absl::StrAppend(&name, " save_option ", operation.save_option);
  }
  return name;
}

std::string OperationText(const Operation& operation, int stages) {
  return absl::StrCat(OperationName(operation), operation.stage == stages + 1 ? " (the loss)" : "");
}

std::string OperationPath(const Schedule& schedule, size_t index, int stages) {
  const std::string name = index < schedule.operations.size()
                               ? OperationText(schedule.operations[index], stages)
                               : "END";
  return absl::StrCat("operations[", index, "] ", name);
}

}  // namespace stowage

#include "proto/convert/schedule_message.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// nullopt: a kind that this version does not have.
std::optional<OperationKind> FromMessage(v1::Operation::Kind kind) {
  switch (kind) {
    case v1::Operation::FORWARD_SAVE:
      return OperationKind::kForwardSave;
    case v1::Operation::FORWARD_CHECKPOINT:
      return OperationKind::kForwardCheckpoint;
    case v1::Operation::FORWARD_DISCARD:
      return OperationKind::kForwardDiscard;
    case v1::Operation::BACKWARD:
      return OperationKind::kBackward;
    case v1::Operation::OFFLOAD:
      return OperationKind::kOffload;
    case v1::Operation::RELEASE:
      return OperationKind::kRelease;
    case v1::Operation::PREFETCH:
      return OperationKind::kPrefetch;
    case v1::Operation::FORWARD_SAVE_DISCARD:
      return OperationKind::kForwardSaveDiscard;
    default:
      return std::nullopt;  // unset, or from a newer client
  }
}

// In the domain `first_stage` is 0 for an operation of one stage, whether the message leaves it
// unset or repeats the stage.
Operation FromMessage(const v1::Operation& message, OperationKind kind) {
  Operation operation{kind, message.stage()};
  if (message.mode() == v1::Operation::GRAPH) operation.mode = Mode::kGraph;
  if (message.first_stage() != message.stage()) operation.first_stage = message.first_stage();
  operation.save_option = message.save_option();
  return operation;
}

v1::Operation::Kind ToMessage(OperationKind kind) {
  switch (kind) {
    case OperationKind::kForwardSave:
      return v1::Operation::FORWARD_SAVE;
    case OperationKind::kForwardCheckpoint:
      return v1::Operation::FORWARD_CHECKPOINT;
    case OperationKind::kForwardDiscard:
      return v1::Operation::FORWARD_DISCARD;
    case OperationKind::kBackward:
      return v1::Operation::BACKWARD;
    case OperationKind::kOffload:
      return v1::Operation::OFFLOAD;
    case OperationKind::kRelease:
      return v1::Operation::RELEASE;
    case OperationKind::kPrefetch:
      return v1::Operation::PREFETCH;
    case OperationKind::kForwardSaveDiscard:
      return v1::Operation::FORWARD_SAVE_DISCARD;
  }
  return v1::Operation::KIND_UNSPECIFIED;
}

void Fill(const Operation& operation, v1::Operation* to) {
  to->set_kind(ToMessage(operation.kind));
  to->set_stage(operation.stage);
  if (operation.mode == Mode::kGraph) to->set_mode(v1::Operation::GRAPH);
  if (operation.first_stage != 0) to->set_first_stage(operation.first_stage);
  if (operation.save_option != 0) to->set_save_option(operation.save_option);
}

}  // namespace

Schedule FromMessage(const v1::Schedule& message, std::vector<FieldViolation>* violations) {
  // A schedule of a newer client may have a million operations that are wrong in the same way.
  constexpr int kMaxReported = 10;
  Schedule schedule;
  schedule.operations.reserve(static_cast<size_t>(message.operations_size()));
  int reported = 0;
  for (int i = 0; i < message.operations_size() && reported < kMaxReported; ++i) {
    const v1::Operation& operation = message.operations(i);
    if (!v1::Operation::Mode_IsValid(operation.mode())) {
      violations->push_back({absl::StrCat("schedule.operations[", i, "].mode"),
                             absl::StrCat("is ", static_cast<int>(operation.mode()),
                                          ", which is no mode; set EAGER or GRAPH")});
      ++reported;
      continue;
    }
    if (const auto kind = FromMessage(operation.kind())) {
      schedule.operations.push_back(FromMessage(operation, *kind));
      continue;
    }
    violations->push_back({absl::StrCat("schedule.operations[", i, "].kind"),
                           absl::StrCat("is ", static_cast<int>(operation.kind()),
                                        ", which is no kind of operation; set e.g. FORWARD_SAVE")});
    ++reported;
  }
  return schedule;
}

void Fill(const Schedule& schedule, v1::Schedule* to) {
  to->mutable_operations()->Reserve(static_cast<int>(schedule.operations.size()));
  for (const Operation& operation : schedule.operations) {
    Fill(operation, to->add_operations());
  }
}

v1::Schedule ToMessage(const Schedule& schedule) {
  v1::Schedule message;
  Fill(schedule, &message);
  return message;
}

v1::Operation ToMessage(const Operation& operation) {
  v1::Operation message;
  Fill(operation, &message);
  return message;
}

}  // namespace stowage

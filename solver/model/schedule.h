// A schedule: the list of operations that a training process executes, in program order.
// Source: solver/README.md, "Operations and schedules", whose table defines each kind.
#ifndef STOWAGE_SOLVER_MODEL_SCHEDULE_H_
#define STOWAGE_SOLVER_MODEL_SCHEDULE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stowage {

inline constexpr int kMaxOperations = 1'000'000;

enum class OperationKind {
  kForwardSave,         // F_all: leaves ā^l
  kForwardCheckpoint,   // F_ck: leaves a^l, keeps value l-1
  kForwardDiscard,      // F_∅: leaves a^l, drops value l-1
  kBackward,            // B
  kOffload,             // starts copying value l to the host
  kRelease,             // waits for that copy, then value l leaves the device
  kPrefetch,            // starts copying value l back
  kForwardSaveDiscard,  // leaves ā^l, drops a^(l-1): only where the backward of l does not read it
};

// How a stage executes. Every operation of a stage has the same mode throughout a schedule.
enum class Mode {
  kEager,  // operator by operator
  kGraph,  // compiled, fused with its fusion group
};

struct Operation {
  OperationKind kind = OperationKind::kForwardSave;
  int stage = 0;             // l: 1..L+1, L+1 is the loss; transfers also of value 0, the input
  Mode mode = Mode::kEager;  // transfers: always eager
  int first_stage = 0;       // of a fused group that ends with stage l; 0: l alone
  // Of a forward that saves: which of Stage::save_options, from 1; 0: the stage's own way. The
  // backward is of the way in which its stage was saved.
  int save_option = 0;

  int first() const { return first_stage == 0 ? stage : first_stage; }

  bool operator==(const Operation&) const = default;
};

struct Schedule {
  std::vector<Operation> operations;

  bool operator==(const Schedule&) const = default;
};

bool IsForward(OperationKind kind);
bool Saves(OperationKind kind);      // a forward that leaves ā^l
bool Discards(OperationKind kind);   // a forward that drops value l-1
bool IsCompute(OperationKind kind);  // a forward or a backward

// Whether operation `index` is a forward that saves and whose backward is the next compute
// operation, so that nobody else reads its output: it takes Stage::ReplaySeconds(). O(transfers in
// between).
bool IsReplay(const std::vector<Operation>& operations, size_t index);

absl::string_view KindName(OperationKind kind);  // "FORWARD_SAVE", as in JSON
// "BACKWARD 4", "BACKWARD 4 graph"; for a fusion group "BACKWARD 2-4 graph"; with an option
// "FORWARD_SAVE 4 save_option 2".
std::string OperationName(const Operation& operation);

// The same for people: "BACKWARD 28 (the loss)" of a chain of 27 stages.
std::string OperationText(const Operation& operation, int stages);

// "operations[12] BACKWARD 4", as OperationText() has it, or "operations[40] END" for an index past
// the end. `stages`: of the schedule's chain.
std::string OperationPath(const Schedule& schedule, size_t index, int stages);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_SCHEDULE_H_

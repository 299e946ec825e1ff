#include "solver/algorithms/rematerialization/rotor_part.h"

namespace stowage {

std::optional<Schedule> UnrollChoices(const RotorPart& root,
                                      const std::function<RotorChoice(const RotorPart&)>& choose,
                                      OneStage one_stage) {
  // A stack of work in reverse order of execution. An entry is a part, or BACKWARD s if t is 0.
  std::vector<RotorPart> pending = {root};
  Schedule schedule;
  const auto add = [&schedule](OperationKind kind, int l) {
    schedule.operations.push_back({kind, l});
  };
  while (!pending.empty()) {
    if (schedule.operations.size() > kMaxOperations) return std::nullopt;
    const RotorPart part = pending.back();
    pending.pop_back();
    if (part.t == 0) {
      add(OperationKind::kBackward, part.s);
      continue;
    }
    const bool chosen = part.s < part.t || one_stage == OneStage::kChosen;
    const RotorChoice choice = chosen ? choose(part) : RotorChoice{};
    if (choice.split == 0) {
      add(part.leaves ? OperationKind::kForwardSaveDiscard : OperationKind::kForwardSave, part.s);
      schedule.operations.back().save_option = choice.save_option;
      pending.push_back({part.s, 0, 0});
      if (part.s < part.t) pending.push_back({part.s + 1, part.t, choice.remaining_level});
    } else {
      // The sweep, then [split..t]; the front part runs last and is pushed first.
      add(OperationKind::kForwardCheckpoint, part.s);
      for (int k = part.s + 1; k < choice.split; ++k) add(OperationKind::kForwardDiscard, k);
      pending.push_back({part.s, choice.split - 1, part.level, part.leaves});
      pending.push_back({choice.split, part.t, choice.remaining_level, choice.rest_leaves});
    }
  }
  if (schedule.operations.size() > kMaxOperations) return std::nullopt;
  return schedule;
}

}  // namespace stowage

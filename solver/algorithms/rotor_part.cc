#include "solver/algorithms/rotor_part.h"

#include <algorithm>

namespace stowage {

int64_t SaveNeedBytes(const Chain& chain, int s, int t) {
  const Stage& stage = chain.stage(s);
  const int64_t forward = chain.gradient_bytes(t) + stage.forward_overhead_bytes;
  const int64_t backward =
      chain.gradient_bytes(s) + chain.gradient_bytes(s - 1) + stage.backward_overhead_bytes;
  return stage.saved_bytes + std::max(forward, backward);
}

int64_t SweepNeedBytes(const Chain& chain, int s, int k, int t) {
  const int64_t input = k == s ? 0 : chain.output_bytes(k - 1);
  return chain.gradient_bytes(t) + input + chain.output_bytes(k) +
         chain.stage(k).forward_overhead_bytes;
}

std::optional<Schedule> UnrollChoices(const RotorPart& root,
                                      const std::function<RotorChoice(const RotorPart&)>& choose) {
  // What is still to come, the next on top: a part, or the backward of stage s where t is 0.
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
    const RotorChoice choice = part.s == part.t ? RotorChoice{} : choose(part);
    if (choice.split == 0) {
      add(OperationKind::kForwardSave, part.s);
      pending.push_back({part.s, 0, 0});
      if (part.s < part.t) pending.push_back({part.s + 1, part.t, choice.remaining_level});
    } else {
      add(OperationKind::kForwardCheckpoint, part.s);
      for (int k = part.s + 1; k < choice.split; ++k) add(OperationKind::kForwardDiscard, k);
      pending.push_back({part.s, choice.split - 1, part.level});
      pending.push_back({choice.split, part.t, choice.remaining_level});
    }
  }
  if (schedule.operations.size() > kMaxOperations) return std::nullopt;
  return schedule;
}

}  // namespace stowage

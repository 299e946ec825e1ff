#include "solver/algorithms/offload/stored_chain.h"

#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/transfers/least_plan.h"

namespace stowage {

// When everything is stored, FORWARD l+1 uses value l, and then nothing before BACKWARD l+1: a
// value has one gap at most.
StoredChain::StoredChain(const Instance& instance)
    : sequence_(SequenceOf(instance.chain(), StoreAllSchedule(instance.chain()))),
      gap_of_(static_cast<size_t>(instance.chain().length()) + 2, -1),
      choices_(sequence_.gaps.size()),
      placement_(instance.chain(), instance.platform()) {
  // Without a link no value may move, so gap_of_ stays -1.
  const bool moves = instance.platform().has_link();
  for (size_t g = 0; moves && g < sequence_.gaps.size(); ++g) {
    gap_of_[static_cast<size_t>(sequence_.gaps[g].value)] = static_cast<int>(g);
  }
}

int64_t StoredChain::Bytes(int l) const {
  return MayMove(l) ? sequence_.gaps[static_cast<size_t>(gap_of_[static_cast<size_t>(l)])].bytes
                    : 0;
}

std::optional<double> StoredChain::Place(const std::vector<bool>& moved, int64_t memory_bytes) {
  // Every other choice stays at its default, the rules of TransferPlacement.
  choices_.assign(choices_.size(), GapChoice{});
  for (size_t l = 0; l < moved.size(); ++l) {
    if (moved[l] && gap_of_[l] >= 0) choices_[static_cast<size_t>(gap_of_[l])].moved = true;
  }
  return placement_.Place(sequence_, choices_, memory_bytes);
}

int64_t StoringAlgorithm::WorkingBytes(const Instance& instance) const {
  return LeastPlanBytes(instance.chain(), Recomputation::kNone);
}

absl::StatusOr<std::optional<LeastPlan>> StoringAlgorithm::FindLeast(
    const Instance& instance, const SolveContext& context) const {
  return FindLeastPlan(instance.chain(), instance.platform(), Recomputation::kNone, context);
}

}  // namespace stowage

#include "solver/algorithms/rotor_minimum.h"

#include <algorithm>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {

RotorMinimum::RotorMinimum(const Chain& chain)
    : chain_(&chain),
      index_(chain.length() + 1),
      least_(std::make_unique_for_overwrite<int64_t[]>(index_.size())) {}

absl::StatusOr<RotorMinimum> RotorMinimum::Build(const Chain& chain, const SolveContext& context) {
  RotorMinimum minimum(chain);
  const int last = chain.length() + 1;
  for (int length = 1; length <= last; ++length) {
    for (int s = 1; s + length - 1 <= last; ++s) {
      RETURN_IF_ERROR(context.CheckStop());
      const int t = s + length - 1;
      minimum.least_[minimum.index_(s, t)] = minimum.BestStart(s, t).bytes;
    }
  }
  return minimum;
}

int64_t RotorMinimum::WorkingBytes(const Chain& chain) {
  const auto pairs = static_cast<int64_t>(PairIndex(chain.length() + 1).size());
  return SaturatingMultiply(pairs, sizeof(int64_t));
}

RotorMinimum::Start RotorMinimum::BestStart(int s, int t) const {
  const int64_t save_need = SaveNeedBytes(*chain_, s, t);
  if (s == t) return {save_need, 0};
  Start best{std::max(save_need, chain_->saved_bytes(s) + least_[index_(s + 1, t)]), 0};
  int64_t sweep_need = 0;
  for (int split = s + 1; split <= t && !chain_->stage(split - 1).no_recompute; ++split) {
    sweep_need = std::max(sweep_need, SweepNeedBytes(*chain_, s, split - 1, t));
    if (sweep_need >= best.bytes) break;  // it only grows with the split
    const int64_t bytes =
        std::max({sweep_need, chain_->output_bytes(split - 1) + least_[index_(split, t)],
                  least_[index_(s, split - 1)]});
    if (bytes < best.bytes) best = {bytes, split};
  }
  return best;
}

int64_t RotorMinimum::least_bytes() const {
  return chain_->input_bytes + least_[index_(1, chain_->length() + 1)];
}

std::optional<Schedule> RotorMinimum::LeastSchedule() const {
  return UnrollChoices({1, chain_->length() + 1, 0}, [this](const RotorPart& part) {
    return RotorChoice{BestStart(part.s, part.t).split, 0};
  });
}

}  // namespace stowage

#include "solver/algorithms/rematerialization/rotor_minimum.h"

#include <algorithm>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
RotorMinimum::RotorMinimum(const Chain& chain, Saving saving)
    : input_bytes_(chain.input_bytes),
      sizes_(PartSizesInBytes(chain, saving)),
      index_(sizes_.stages()),
      least_(MakeLargeBuffer<int64_t>(index_.size())) {}

absl::StatusOr<RotorMinimum> RotorMinimum::Build(const Chain& chain, Saving saving,
                                                 const SolveContext& context) {
  RotorMinimum minimum(chain, saving);
  RETURN_IF_ERROR(FillLeast<int64_t>(minimum.sizes_, kNeverBytes, context, minimum.least_.get()));
  return minimum;
}

int64_t RotorMinimum::WorkingBytes(const Chain& chain) {
  constexpr int64_t kPerStage = 256;  // the sizes of the stages
  constexpr int64_t kHugePage = int64_t{2} << 20;
  const int stages = chain.length() + 1;
  const auto parts = static_cast<int64_t>(Triangle(stages).size());
  const int64_t exact = parts * static_cast<int64_t>(sizeof(int64_t)) + stages * kPerStage;
  return exact < kHugePage ? exact : exact + kHugePage;
}

// The choice that attains K(s,t), found by evaluating its recurrence again: no choices are stored.
// Of equal choices saving, then the lowest k.
RotorChoice RotorMinimum::BestChoice(const RotorPart& part) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  RotorChoice best;
  int64_t least = kNeverBytes;
  if (sizes_.may_save[s] != 0) {
    least = std::max(sizes_.SaveNeed(s, t), sizes_.saved[s] + least_[index_(s + 1, t)]);
  }
  int64_t sweep = 0;  // SweepNeed(s..k)
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    const int64_t need =
        std::max({sweep + sizes_.gradient[t], sizes_.output[k] + least_[index_(k + 1, t)],
                  least_[index_(s, k)]});
    if (need < least) {
      least = need;
      best = {k + 2, 0};
    }
  }
  return best;
}

int64_t RotorMinimum::min_bytes() const {
  return input_bytes_ + least_[index_(0, sizes_.stages() - 1)];
}

std::optional<Schedule> RotorMinimum::LeastSchedule(int s, int t) const {
  return UnrollChoices({s + 1, t + 1, 0},
                       [this](const RotorPart& part) { return BestChoice(part); });
}

}  // namespace stowage

#include "solver/algorithms/rematerialization/leaving_minimum.h"

#include <algorithm>

#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/base/status_macros.h"
#include "solver/kernels/min_max.h"

namespace stowage {
LeavingMinimum::LeavingMinimum(const Chain& chain, Saving saving)
    : input_bytes_(chain.input_bytes),
      sizes_(PartSizesInBytes(chain, saving)),
      ways_(chain, [](int64_t bytes) { return bytes; }),
      index_(sizes_.stages()),
      staying_(MakeLargeBuffer<int64_t>(index_.size())),
      leaving_(MakeLargeBuffer<int64_t>(index_.size())) {}

absl::StatusOr<LeavingMinimum> LeavingMinimum::Build(const Chain& chain, Saving saving,
                                                     const SolveContext& context) {
  LeavingMinimum minimum(chain, saving);
  // A row depends on those below it.
  for (int s = minimum.sizes_.stages() - 1; s >= 0; --s) {
    RETURN_IF_ERROR(context.CheckStop());
    minimum.FillRow(s, /*leaves=*/false);
    if (minimum.sizes_.may_leave[s] != 0) minimum.FillRow(s, /*leaves=*/true);
  }
  return minimum;
}

void LeavingMinimum::FillRow(int s, bool leaves) {
  const int count = sizes_.stages();
  int64_t* const row = (leaves ? leaving_ : staying_).get() + index_(s, s) - s;
  std::fill(row + s, row + count, kNeverBytes);
  for (const auto& way : ways_.of(s)) {
    row[s] = std::min(row[s], SavedIn<int64_t>(way, sizes_, s, s, leaves).need);
    for (int t = s + 1; t < count && sizes_.may_save[s] != 0; ++t) {
      const Saved saved = SavedIn<int64_t>(way, sizes_, s, t, leaves);
      row[t] = std::min(row[t], std::max(saved.need, saved.taken + Row(s + 1, false)[t]));
    }
  }
  // K(s,k) or E(s,k) is final once all smaller k have been tried.
  int64_t sweep = 0;
  for (int k = s; k < std::min(count - 1, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    LowerLeast(SplitNeed<int64_t>{.kept = sizes_.output[k],
                                  .front = row[k],
                                  .sweep = sweep,
                                  .rest = Row(k + 1, true) + k + 1,
                                  .gradient = sizes_.gradient.data() + k + 1},
               static_cast<size_t>(count - 1 - k), row + k + 1);
  }
}

int64_t LeavingMinimum::WorkingBytes(const Chain& chain) {
  return 2 * RotorMinimum::WorkingBytes(chain);
}

// The choice that attains the part's entry: saving, then the lowest k.
RotorChoice LeavingMinimum::BestChoice(const RotorPart& part) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  RotorChoice best;
  int64_t least = kNeverBytes;
  for (int option = 0; const auto& way : ways_.of(s)) {
    const Saved saved = SavedIn<int64_t>(way, sizes_, s, t, part.leaves);
    int64_t need = kNeverBytes;
    if (s == t) need = saved.need;
    if (s < t && sizes_.may_save[s] != 0) {
      need = std::max(saved.need, saved.taken + Row(s + 1, false)[t]);
    }
    if (need < least) {
      least = need;
      best = {.save_option = option};
    }
    ++option;
  }
  int64_t sweep = 0;
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    const int64_t need = std::max({sweep + sizes_.gradient[t],
                                   sizes_.output[k] + Row(k + 1, true)[t], Row(s, part.leaves)[k]});
    if (need < least) {
      least = need;
      best = {k + 2, 0, sizes_.may_leave[k + 1] != 0};
    }
  }
  return best;
}

int64_t LeavingMinimum::least_bytes() const {
  return input_bytes_ + Row(0, true)[sizes_.stages() - 1];
}

std::optional<Schedule> LeavingMinimum::LeastSchedule() const {
  return UnrollChoices(
      {1, sizes_.stages(), 0, sizes_.may_leave[0] != 0},
      [this](const RotorPart& part) { return BestChoice(part); }, OneStage::kChosen);
}

bool HasLeavingParts(const Chain& chain) {
  return chain.has_unread_inputs() || chain.has_save_options();
}

absl::StatusOr<std::optional<LeastPlan>> LeastPlanOfLeavingParts(const Chain& chain,
                                                                 const SolveContext& context) {
  if (!HasLeavingParts(chain)) return std::optional<LeastPlan>();
  ASSIGN_OR_RETURN(const LeavingMinimum minimum,
                   LeavingMinimum::Build(chain, Saving::kAlways, context));
  std::optional<Schedule> schedule = minimum.LeastSchedule();
  if (!schedule.has_value()) return std::optional<LeastPlan>();
  return std::optional<LeastPlan>({minimum.least_bytes(), *std::move(schedule)});
}

}  // namespace stowage

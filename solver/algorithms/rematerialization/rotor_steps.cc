#include "solver/algorithms/rematerialization/rotor_steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {}  // namespace

RotorSteps::RotorSteps(const Chain& chain, const Options& options)
    : options_(options),
      input_bytes_(chain.input_bytes),
      max_part_bytes_(options.memory_bytes - (chain.has_unread_inputs() ? 0 : chain.input_bytes)),
      sizes_(PartSizesInBytes(chain, options.saving)),
      ways_(chain, [](int64_t bytes) { return bytes; }),
      times_(chain),
      index_(sizes_.stages()),
      parts_(index_.size()),
      leaving_parts_(chain.has_unread_inputs() ? index_.size() : 0),
      fastest_(max_part_bytes_, times_.min_gain()) {}

absl::StatusOr<std::optional<RotorSteps>> RotorSteps::Build(const Chain& chain,
                                                            const Options& options,
                                                            const SolveContext& context) {
  RotorSteps steps(chain, options);
  steps.steps_.reserve(options.max_steps);  // growing would need up to three times the memory
  const int count = steps.sizes_.stages();
  // A part depends on parts that start later and on shorter ones with the same start.
  for (int s = count - 1; s >= 0; --s) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int t = s; t < count; ++t) {
      if (!steps.FillPart(s, t, /*leaves=*/false)) return std::optional<RotorSteps>();
      if (steps.sizes_.may_leave[s] == 0) continue;
      if (!steps.FillPart(s, t, /*leaves=*/true)) return std::optional<RotorSteps>();
    }
  }
  steps.fastest_ = FastestSteps<Step>(0, 0);  // frees what only building needs
  return std::optional<RotorSteps>(std::move(steps));
}

// The case of saving stage s, in each of its ways. What is behind the last stage needs and loses
// nothing.
void RotorSteps::LowerBySaving(int s, int t, bool leaves) {
  constexpr Step kNothing;
  const std::span<const Step> rest = s < t ? StepsOf(s + 1, t, false) : std::span(&kNothing, 1);
  const auto make = [](int64_t peak, double lost, size_t /*rest*/) { return Step{peak, lost}; };
  for (const auto& way : ways_.of(s)) {
    const Saved saved = SavedIn<int64_t>(way, sizes_, s, t, leaves);
    if (&way == ways_.of(s).data()) {
      fastest_.SetToSaving(rest, saved.need, saved.taken, make);
    } else {
      work_ += fastest_.LowerBySaving(rest, saved.need, saved.taken, way.lost_seconds, make);
    }
  }
}

// Computes and stores the steps of part [s..t]. Returns false when a limit is exceeded.
bool RotorSteps::FillPart(int s, int t, bool leaves) {
  std::vector<Step>& best = fastest_.steps();
  best.clear();
  if (s == t || sizes_.may_save[s] != 0) LowerBySaving(s, t, leaves);
  if (s < t) {
    int64_t sweep = 0;
    for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (sweep + sizes_.gradient[t] > max_part_bytes_) break;
      work_ +=
          fastest_.LowerBySplit({.rest = StepsOf(k + 1, t, true),
                                 .front = StepsOf(s, k, leaves),
                                 .checkpoint_bytes = sizes_.output[k],
                                 .sweep_bytes = sweep + sizes_.gradient[t],
                                 .sweep_seconds = times_.Seconds(s, k)},
                                [](int64_t peak, double lost, size_t /*rest*/, size_t /*front*/) {
                                  return Step{peak, lost};
                                });
      if (work_ > options_.max_work) return false;
    }
  }
  if (steps_.size() + best.size() > options_.max_steps || work_ > options_.max_work) return false;
  (leaves ? leaving_parts_ : parts_)[index_(s, t)] = {steps_.size(), best.size()};
  steps_.insert(steps_.end(), best.begin(), best.end());
  return true;
}

// The lost seconds within `bytes`: those of the last step at or below it; infinite before the
// first.
double RotorSteps::LostAt(int s, int t, bool leaves, int64_t bytes) const {
  const std::span<const Step> steps = StepsOf(s, t, leaves);
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), bytes,
                       [](int64_t at, const Step& step) { return at < step.peak_bytes; });
  if (after == steps.begin()) return kInfiniteSeconds;
  return std::prev(after)->lost_seconds;
}

std::optional<Schedule> RotorSteps::ScheduleWithin(int64_t memory_bytes) const {
  const int last = sizes_.stages();
  const int64_t root = memory_bytes - input_bytes_;
  if (LostAt(0, last - 1, true, root) == kInfiniteSeconds) return std::nullopt;
  return UnrollChoices(
      {1, last, root, sizes_.may_leave[0] != 0},
      [this](const RotorPart& part) {
        return FastestChoice(part, sizes_, ways_, times_,
                             [this](int s, int t, bool leaves, int64_t bytes) {
                               return LostAt(s, t, leaves, bytes);
                             });
      },
      OneStage::kChosen);
}

}  // namespace stowage

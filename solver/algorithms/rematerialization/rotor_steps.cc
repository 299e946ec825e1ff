#include "solver/algorithms/rematerialization/rotor_steps.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "solver/base/status_macros.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

}  // namespace

RotorSteps::RotorSteps(const Chain& chain, const Options& options)
    : options_(options),
      input_bytes_(chain.input_bytes),
      max_part_bytes_(options.memory_bytes - (HasUnreadInputs(chain) ? 0 : chain.input_bytes)),
      sizes_(MakePartSizes<int64_t>(chain, options.saving, [](int64_t bytes) { return bytes; })),
      index_(sizes_.stages()),
      parts_(index_.size()),
      leaving_parts_(HasUnreadInputs(chain) ? index_.size() : 0),
      fastest_(0, 0) {
  // Every forward of a sweep costs a little more than it takes, so that of equally fast schedules
  // one with few operations is chosen.
  constexpr double kTieShare = 1e-12;
  constexpr double kNoiseShare = 1e-14;
  double total = 0;
  for (int l = 1; l <= sizes_.stages(); ++l) total += chain.stage(l).forward_seconds;
  const double tie = total > 0 ? kTieShare * total : 1;
  min_gain_ = total > 0 ? kNoiseShare * total : 0;
  prefix_.push_back(0);
  sweep_end_.push_back(0);
  for (int l = 1; l <= sizes_.stages(); ++l) {
    const Stage& stage = chain.stage(l);
    sweep_end_.push_back(prefix_.back() + stage.ReplaySeconds() + tie);
    prefix_.push_back(prefix_.back() + stage.forward_seconds + tie);
  }
  fastest_ = FastestSteps<Step>(max_part_bytes_, min_gain_);
}

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

// Computes and stores the steps of part [s..t]. Returns false when a limit is exceeded.
bool RotorSteps::FillPart(int s, int t, bool leaves) {
  const int64_t need = leaves ? sizes_.LeaveNeed(s, t) : sizes_.SaveNeed(s, t);
  std::vector<Step>& best = fastest_.steps();
  best.clear();
  if (s == t) {
    if (need <= max_part_bytes_) best.push_back({need, 0.0});
  } else {
    if (sizes_.may_save[s] != 0) {
      const int64_t taken = sizes_.saved[s] - (leaves ? sizes_.input[s] : 0);
      fastest_.SetToSaving(StepsOf(s + 1, t, false), need, taken,
                           [](int64_t peak, double lost, size_t /*rest*/) {
                             return Step{peak, lost};
                           });
    }
    int64_t sweep = 0;
    for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (sweep + sizes_.gradient[t] > max_part_bytes_) break;
      work_ +=
          fastest_.LowerBySplit({.rest = StepsOf(k + 1, t, true),
                                 .front = StepsOf(s, k, leaves),
                                 .checkpoint_bytes = sizes_.output[k],
                                 .sweep_bytes = sweep + sizes_.gradient[t],
                                 .sweep_seconds = sweep_end_[k + 1] - prefix_[s]},
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
  if (after == steps.begin()) return kNone;
  return std::prev(after)->lost_seconds;
}

// Evaluates the recurrence at one amount of memory. A later split must gain more than rounding.
RotorChoice RotorSteps::BestChoice(const RotorPart& part) const {
  const int s = part.s - 1;
  const int t = part.t - 1;
  RotorChoice best;
  double least = kNone;
  const int64_t save_need = part.leaves ? sizes_.LeaveNeed(s, t) : sizes_.SaveNeed(s, t);
  if (sizes_.may_save[s] != 0 && part.level >= save_need) {
    best = {0, part.level - sizes_.saved[s] + (part.leaves ? sizes_.input[s] : 0)};
    least = LostAt(s + 1, t, false, best.remaining_level);
  }
  int64_t sweep = 0;
  for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
    if (part.level < sweep + sizes_.gradient[t]) break;
    const int64_t rest = part.level - sizes_.output[k];
    const double lost = sweep_end_[k + 1] - prefix_[s] + LostAt(k + 1, t, true, rest) +
                        LostAt(s, k, part.leaves, part.level);
    if (lost < least - min_gain_) {
      least = lost;
      best = {k + 2, rest, sizes_.may_leave[k + 1] != 0};
    }
  }
  return best;
}

std::optional<Schedule> RotorSteps::ScheduleWithin(int64_t memory_bytes) const {
  const int last = sizes_.stages();
  const int64_t root = memory_bytes - input_bytes_;
  if (LostAt(0, last - 1, true, root) == kNone) return std::nullopt;
  return UnrollChoices({1, last, root, sizes_.may_leave[0] != 0},
                       [this](const RotorPart& part) { return BestChoice(part); });
}

}  // namespace stowage

// What the programs share that have rotor's recurrence in seconds (RotorSteps, LeavingTable): the
// time of a sweep, and the fastest way to run a part.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_FASTEST_CHOICE_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_FASTEST_CHOICE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/rematerialization/save_ways.h"
#include "solver/model/chain.h"

namespace stowage {

// Immutable, thread-safe.
class SweepTimes {
 public:
  explicit SweepTimes(const Chain& chain) {
    constexpr double kTieShare = 1e-12;
    constexpr double kNoiseShare = 1e-14;
    double total = 0;
    for (int l = 1; l <= chain.length() + 1; ++l) {
      const Stage& stage = chain.stage(l);
      total += stage.forward_seconds;
      // A tie must not weigh as much as another way to save, even where no forward takes time.
      for (const SaveOption& option : stage.save_options) {
        total += option.backward_seconds - stage.backward_seconds;
      }
    }
    const double tie = total > 0 ? kTieShare * total : 1;
    min_gain_ = total > 0 ? kNoiseShare * total : 0;
    for (int l = 1; l <= chain.length() + 1; ++l) {
      const Stage& stage = chain.stage(l);
      sweep_end_.push_back(prefix_.back() + stage.ReplaySeconds() + tie);
      prefix_.push_back(prefix_.back() + stage.forward_seconds + tie);
    }
  }

  // The forwards s..k, from 0, the last one as a replay. Each costs a little more than it takes, so
  // that of equally fast schedules one with few operations is chosen.
  double Seconds(int s, int k) const { return sweep_end_[k + 1] - prefix_[s]; }
  double min_gain() const { return min_gain_; }  // seconds; a smaller difference is rounding

 private:
  double min_gain_;
  std::vector<double> prefix_ = {0};     // forward seconds before each stage
  std::vector<double> sweep_end_ = {0};  // the same with the last of them a replay
};

// Evaluates the recurrence (leaving_table.h) at one amount of memory: lost_at(s, t, leaves, level)
// is E's value where `leaves`, else C's, infinite where nothing fits. A later way to save, and a
// split, must gain more than rounding.
template <typename T, typename LostAt>
RotorChoice FastestChoice(const RotorPart& part, const PartSizes<T>& sizes, const SaveWays<T>& ways,
                          const SweepTimes& times, LostAt lost_at) {
  const int s = part.s - 1;
  const int t = part.t - 1;
  RotorChoice best;
  double least = std::numeric_limits<double>::infinity();
  for (int option = 0; const auto& way : ways.of(s)) {
    const Saved saved = SavedIn<T>(way, sizes, s, t, part.leaves);
    const bool fits = (s == t || sizes.may_save[s] != 0) && part.level >= saved.need;
    const int64_t rest = part.level - saved.taken;
    const double lost =
        fits ? way.lost_seconds + (s < t ? lost_at(s + 1, t, false, rest) : 0) : least;
    if (lost < least - times.min_gain()) {
      least = lost;
      best = {.remaining_level = rest, .save_option = option};
    }
    ++option;
  }
  T sweep = 0;
  for (int k = s; k < std::min(t, sizes.sweep_limit[s]); ++k) {
    sweep = std::max(sweep, k == s ? sizes.sweep_first[k] : sizes.sweep[k]);
    if (part.level < sweep + sizes.gradient[t]) break;
    const int64_t rest = part.level - sizes.output[k];
    const double lost = times.Seconds(s, k) + lost_at(k + 1, t, true, rest) +
                        lost_at(s, k, part.leaves, part.level);
    if (lost < least - times.min_gain()) {
      least = lost;
      best = {k + 2, rest, sizes.may_leave[k + 1] != 0};
    }
  }
  return best;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_FASTEST_CHOICE_H_

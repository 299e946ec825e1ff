#include "solver/algorithms/rematerialization/rotor_guided.h"

#include <algorithm>
#include <limits>

#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/rotor_part.h"

namespace stowage {
namespace {

// Chooses how parts run. Borrows its arguments.
class Guided {
 public:
  Guided(const RotorTable& table, const RotorMinimum& minimum, int64_t levels_up)
      : table_(table), minimum_(minimum), sizes_(minimum.sizes()), levels_up_(levels_up) {}

  // part.level is in bytes. Keeps the invariant of the header: a choice is possible only if every
  // part that it leads to has at least its least memory, so the recursion always ends in a
  // schedule. Among those it minimizes rotor's recurrence with the table's estimates in place of C.
  RotorChoice BestChoice(const RotorPart& part) const {
    const int s = part.s - 1;
    const int t = part.t - 1;
    RotorChoice best;
    double least = std::numeric_limits<double>::infinity();
    const int64_t after_saving = part.level - sizes_.saved[s];
    if (sizes_.may_save[s] != 0 && part.level >= sizes_.SaveNeed(s, t) &&
        after_saving >= minimum_.min_bytes(s + 1, t)) {
      best = {0, after_saving};
      least = Estimate(s + 1, t, after_saving);
    }
    int64_t sweep = 0;  // SweepNeed(s..k)
    for (int k = s; k < std::min(t, sizes_.sweep_limit[s]); ++k) {
      sweep = std::max(sweep, k == s ? sizes_.sweep_first[k] : sizes_.sweep[k]);
      if (part.level < sweep + sizes_.gradient[t]) break;
      const int64_t rest = part.level - sizes_.output[k];
      // Both parts of the split must remain feasible.
      if (rest < minimum_.min_bytes(k + 1, t) || part.level < minimum_.min_bytes(s, k)) {
        continue;
      }
      const double lost =
          table_.SweepSeconds(s, k) + Estimate(k + 1, t, rest) + Estimate(s, k, part.level);
      if (lost < least) {
        least = lost;
        best = {k + 2, rest};
      }
    }
    return best;
  }

 private:
  double Estimate(int s, int t, int64_t bytes) const {
    return table_.EstimateLostSeconds(s, t, bytes, levels_up_);
  }

  const RotorTable& table_;
  const RotorMinimum& minimum_;
  const PartSizes<int64_t>& sizes_;
  const int64_t levels_up_;
};

}  // namespace

std::optional<Schedule> GuidedSchedule(const RotorTable& table, const RotorMinimum& minimum,
                                       int64_t memory_bytes, int64_t levels_up) {
  if (memory_bytes < minimum.min_bytes()) return std::nullopt;
  const Guided guided(table, minimum, levels_up);
  return UnrollChoices({1, minimum.sizes().stages(), memory_bytes - minimum.input_bytes()},
                       [&guided](const RotorPart& part) { return guided.BestChoice(part); });
}

}  // namespace stowage

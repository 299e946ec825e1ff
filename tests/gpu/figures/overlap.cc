#include "tests/gpu/figures/overlap.h"

#include <algorithm>
#include <utility>

namespace stowage {
namespace {

// The union as disjoint intervals, in order.
std::vector<Interval> UnionOf(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start_seconds < b.start_seconds; });
  std::vector<Interval> merged;
  for (const Interval& interval : intervals) {
    if (!merged.empty() && interval.start_seconds <= merged.back().end_seconds) {
      merged.back().end_seconds = std::max(merged.back().end_seconds, interval.end_seconds);
    } else {
      merged.push_back(interval);
    }
  }
  return merged;
}

// Requires: `others` do not overlap each other.
double SecondsBeside(const Interval& interval, const std::vector<Interval>& others) {
  double seconds = 0;
  for (const Interval& other : others) {
    seconds += std::max(0.0, std::min(interval.end_seconds, other.end_seconds) -
                                 std::max(interval.start_seconds, other.start_seconds));
  }
  return seconds;
}

// The relative slowdown of a sum of computations.
class Loss {
 public:
  void Add(const Computation& computation) {
    measured_ += computation.interval.seconds();
    alone_ += computation.alone_seconds;
  }
  std::optional<double> Relative() const {
    return alone_ > 0 ? std::optional(measured_ / alone_ - 1) : std::nullopt;
  }

 private:
  double measured_ = 0;
  double alone_ = 0;
};

}  // namespace

std::optional<double> HiddenShare(const Timeline& timeline) {
  std::vector<Interval> computing;
  for (const Computation& computation : timeline.computations) {
    computing.push_back(computation.interval);
  }
  computing = UnionOf(std::move(computing));
  double all = 0;
  double hidden = 0;
  for (const Interval& copy : timeline.copies) {
    all += copy.seconds();
    hidden += SecondsBeside(copy, computing);
  }
  return all > 0 ? std::optional(hidden / all) : std::nullopt;
}

ComputeLoss LossOf(const Timeline& timeline) {
  const std::vector<Interval> copying = UnionOf(timeline.copies);
  Loss beside;
  Loss apart;
  for (const Computation& computation : timeline.computations) {
    const double seconds = SecondsBeside(computation.interval, copying);
    if (seconds == 0) apart.Add(computation);
    if (seconds > 0 && seconds >= computation.interval.seconds() / 2) beside.Add(computation);
  }
  return {beside.Relative(), apart.Relative()};
}

}  // namespace stowage

// What a timeline of a step, measured or predicted, says about copies beside computations. Pure.
#ifndef STOWAGE_TESTS_GPU_FIGURES_OVERLAP_H_
#define STOWAGE_TESTS_GPU_FIGURES_OVERLAP_H_

#include <optional>
#include <vector>

namespace stowage {

struct Interval {
  double start_seconds = 0;
  double end_seconds = 0;

  double seconds() const { return end_seconds - start_seconds; }
};

// A forward or backward in a step, and how long it takes in a step that copies nothing.
struct Computation {
  Interval interval;
  double alone_seconds = 0;
};

struct Timeline {
  std::vector<Computation> computations;
  std::vector<Interval> copies;  // both ways; they may overlap
};

// Of the time that copies take, added up, the share during which something is computed; nullopt:
// nothing is copied.
std::optional<double> HiddenShare(const Timeline& timeline);

// By how much longer computations take than alone, relatively; nullopt: there are no such ones.
struct ComputeLoss {
  std::optional<double> beside;  // those that have copies beside them for half of their time, and
  std::optional<double> apart;  // those that have none: what the figure above is to be held against
};
ComputeLoss LossOf(const Timeline& timeline);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_OVERLAP_H_

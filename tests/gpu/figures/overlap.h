// The overlap of copies and computations in a measured or predicted timeline of a step. Pure.
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

// A forward or backward in a step, and its time in a step without copies.
struct Computation {
  Interval interval;
  double alone_seconds = 0;
};

struct Timeline {
  std::vector<Computation> computations;
  std::vector<Interval> copies;  // in both directions; they may overlap
};

// The share of the copies' total time during which a computation runs; nullopt: no copies.
std::optional<double> HiddenShare(const Timeline& timeline);

// The relative slowdown of computations against their times without copies; nullopt: no
// computations of the kind.
struct ComputeLoss {
  std::optional<double> beside;  // of those that overlap copies for at least half of their time
  std::optional<double> apart;   // of those that overlap none: the reference for the former
};
ComputeLoss LossOf(const Timeline& timeline);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_OVERLAP_H_

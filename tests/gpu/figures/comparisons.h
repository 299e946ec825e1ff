// What the experiments on a GPU make of their measurements: errors of predictions, and curves of
// throughput against peak memory compared. Pure.
#ifndef STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_
#define STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace stowage {

// Of one quantity, in its own unit.
struct PredictedAndMeasured {
  double predicted = 0;
  double measured = 0;

  // By how much more was measured than predicted, relatively.
  double Error() const { return measured / predicted - 1; }
};

struct Errors {
  double mean = 0;   // of the absolute errors
  double worst = 0;  // the largest of them
};

// Zeroes where there is nothing to compare. Requires: no prediction is 0.
Errors ErrorsOf(const std::vector<PredictedAndMeasured>& pairs);

// A way to train: how fast, in how much memory.
struct RatedPoint {
  int64_t peak_bytes = 0;
  double rate = 0;  // samples a second

  bool operator==(const RatedPoint&) const = default;
};

// Those that no other one beats, in memory and rate, by ascending memory; of equal ones the first.
std::vector<RatedPoint> FrontOf(std::vector<RatedPoint> points);

// The fastest in at most so much memory; nullopt: there is none.
std::optional<RatedPoint> FastestWithin(const std::vector<RatedPoint>& points, int64_t bytes);

// The least memory at which a sample takes at most `overhead` longer than at `rate`, relatively.
std::optional<int64_t> LeastMemoryAt(const std::vector<RatedPoint>& points, double rate,
                                     double overhead);

// At the peak memory of `other`, the fastest of ours.
struct Comparison {
  RatedPoint other;
  std::optional<RatedPoint> ours;  // nullopt: none of ours needs so little

  double Gain() const { return ours->rate / other.rate - 1; }  // requires: ours
};

// One for every point of the others' front. Ours may need `slack` more memory, relatively: measured
// peaks of one schedule differ by as much.
std::vector<Comparison> CompareAtEqualMemory(const std::vector<RatedPoint>& ours,
                                             const std::vector<RatedPoint>& others, double slack);

struct Gains {
  int compared = 0;  // comparisons that have one of ours
  int missing = 0;   // those that have none
  double mean = 0;
  double least = 0;
  double most = 0;
};

Gains GainsOf(const std::vector<Comparison>& comparisons);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_

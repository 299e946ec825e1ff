// Statistics of the experiments' measurements: errors of predictions, and comparisons of curves of
// throughput by peak memory. Pure.
#ifndef STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_
#define STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace stowage {

// Two values of one quantity, in one unit.
struct PredictedAndMeasured {
  double predicted = 0;
  double measured = 0;

  // The measured excess over the prediction, relative to the prediction.
  double Error() const { return measured / predicted - 1; }
};

struct Errors {
  double mean = 0;   // of the absolute errors
  double worst = 0;  // the largest of them
};

// Zeroes for no pairs. Requires: no prediction is 0.
Errors ErrorsOf(const std::vector<PredictedAndMeasured>& pairs);

// The speed and memory of one training.
struct RatedPoint {
  int64_t peak_bytes = 0;
  double rate = 0;  // samples per second

  bool operator==(const RatedPoint&) const = default;
};

// The Pareto front in memory and rate, by ascending memory; of equal points the first.
std::vector<RatedPoint> FrontOf(std::vector<RatedPoint> points);

// The fastest point with a peak of at most `bytes`; nullopt: none.
std::optional<RatedPoint> FastestWithin(const std::vector<RatedPoint>& points, int64_t bytes);

// The least peak among points whose time per sample is at most 1 + `overhead` times that of `rate`;
// nullopt: none.
std::optional<int64_t> LeastMemoryAt(const std::vector<RatedPoint>& points, double rate,
                                     double overhead);

// A point of another way, and our fastest point within its peak memory.
struct Comparison {
  RatedPoint other;
  std::optional<RatedPoint> ours;  // nullopt: none fits

  double Gain() const { return ours->rate / other.rate - 1; }  // requires: ours
};

// One comparison for every point of the others' Pareto front. Our point may need more memory by the
// relative `slack`, the difference between measured peaks of one schedule.
std::vector<Comparison> CompareAtEqualMemory(const std::vector<RatedPoint>& ours,
                                             const std::vector<RatedPoint>& others, double slack);

struct Gains {
  int compared = 0;  // comparisons with a point of ours
  int missing = 0;   // comparisons without one
  double mean = 0;
  double least = 0;
  double most = 0;
};

Gains GainsOf(const std::vector<Comparison>& comparisons);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_COMPARISONS_H_

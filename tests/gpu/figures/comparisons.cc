#include "tests/gpu/figures/comparisons.h"

#include <algorithm>
#include <cmath>

namespace stowage {

Errors ErrorsOf(const std::vector<PredictedAndMeasured>& pairs) {
  Errors errors;
  for (const PredictedAndMeasured& pair : pairs) {
    const double error = std::abs(pair.Error());
    errors.mean += error / static_cast<double>(pairs.size());
    errors.worst = std::max(errors.worst, error);
  }
  return errors;
}

std::vector<RatedPoint> FrontOf(std::vector<RatedPoint> points) {
  std::stable_sort(points.begin(), points.end(), [](const RatedPoint& a, const RatedPoint& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.rate > b.rate;
  });
  std::vector<RatedPoint> front;
  for (const RatedPoint& point : points) {
    if (front.empty() || point.rate > front.back().rate) front.push_back(point);
  }
  return front;
}

std::optional<RatedPoint> FastestWithin(const std::vector<RatedPoint>& points, int64_t bytes) {
  std::optional<RatedPoint> fastest;
  for (const RatedPoint& point : points) {
    if (point.peak_bytes > bytes) continue;
    if (!fastest.has_value() || point.rate > fastest->rate) fastest = point;
  }
  return fastest;
}

std::optional<int64_t> LeastMemoryAt(const std::vector<RatedPoint>& points, double rate,
                                     double overhead) {
  std::optional<int64_t> least;
  for (const RatedPoint& point : points) {
    if (point.rate * (1 + overhead) < rate) continue;
    least = std::min(least.value_or(INT64_MAX), point.peak_bytes);
  }
  return least;
}

std::vector<Comparison> CompareAtEqualMemory(const std::vector<RatedPoint>& ours,
                                             const std::vector<RatedPoint>& others, double slack) {
  std::vector<Comparison> comparisons;
  for (const RatedPoint& other : FrontOf(others)) {
    const double most = static_cast<double>(other.peak_bytes) * (1 + slack);
    comparisons.push_back({other, FastestWithin(ours, static_cast<int64_t>(most))});
  }
  return comparisons;
}

Gains GainsOf(const std::vector<Comparison>& comparisons) {
  Gains gains;
  double sum = 0;
  for (const Comparison& comparison : comparisons) {
    if (!comparison.ours.has_value()) {
      ++gains.missing;
      continue;
    }
    const double gain = comparison.Gain();
    gains.least = gains.compared == 0 ? gain : std::min(gains.least, gain);
    gains.most = gains.compared == 0 ? gain : std::max(gains.most, gain);
    sum += gain;
    ++gains.compared;
  }
  if (gains.compared > 0) gains.mean = sum / gains.compared;
  return gains;
}

}  // namespace stowage

// Quantiles of samples.
#ifndef STOWAGE_SOLVER_BASE_QUANTILE_H_
#define STOWAGE_SOLVER_BASE_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace stowage {

// The least value that a share of all values does not exceed. Requires: `sorted` is sorted and not
// empty; share in 0..1.
inline double QuantileOf(const std::vector<double>& sorted, double share) {
  const double at = std::ceil(share * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(sorted.size() - 1)))];
}

// The upper median of an even number of values. Requires: not empty.
inline double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_QUANTILE_H_

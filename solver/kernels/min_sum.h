// The inner loops of programs that share memory out between sub-sequences: a min-plus convolution
// over memory levels, and the cheapest level at a price. Vectorized; thread-safe.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_SUM_H_
#define STOWAGE_SOLVER_KERNELS_MIN_SUM_H_

#include <cstddef>

namespace stowage {

// Infinite values that stand in front of what LowerBySums() adds to.
inline constexpr size_t kLevelsInFront = 64;

// least[k] = min(least[k], min over d in [first, last] of before[k - d] + cost[d])
// for k in [first, count). Requires: first <= last, and kLevelsInFront infinite values in front of
// before[0].
void LowerBySums(const double* before, const double* cost, size_t first, size_t last, size_t count,
                 double* least);

// least[k] = min(least[k], base + scale * values[k]) for k in [0, count).
void LowerToScaled(const float* values, double scale, double base, size_t count, double* least);

// The least cost[d] + price * d over d in [0, count); infinite values may be among them.
// Requires: count > 0.
double LeastAtPrice(const double* cost, double price, size_t count);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_SUM_H_

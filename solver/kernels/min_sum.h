// The inner loops of dynamic programs over memory levels in double precision: those that divide a
// memory budget among sub-sequences (algorithms/modes), a min-plus convolution and the minimum of
// cost plus a price per level, and the lower bound's sums of two parts
// (bounds/priced_recurrence.h). Vectorized with Highway. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_SUM_H_
#define STOWAGE_SOLVER_KERNELS_MIN_SUM_H_

#include <cstddef>
#include <span>

namespace stowage {

// The infinite values required before the first level of SumRange::before, so that a vector may
// start below level 0.
inline constexpr size_t kLevelsInFront = 64;

// The terms before[k - d] + cost[d] with d in [first, last]. Borrows its arrays.
// Requires: first <= last, and kLevelsInFront infinite values in front of before[0].
struct SumRange {
  const double* before = nullptr;
  const double* cost = nullptr;
  size_t first = 0;
  size_t last = 0;
};

// least[k] = min(least[k], min over d in [first, last] of before[k - d] + cost[d])
// for k in [first, count).
void LowerBySums(const SumRange& sums, size_t count, double* least);

// base + scale * x, in double precision.
struct LinearMap {
  double scale = 1;
  double base = 0;
};

// least[k] = min(least[k], map of values[k]) for k in [0, count).
void LowerToScaled(const float* values, const LinearMap& map, size_t count, double* least);

// One term base + a[k] + b[k]. Borrows its arrays.
struct SumTerm {
  const double* a = nullptr;
  const double* b = nullptr;
  double base = 0;
};

// least[k] = min(least[k], the least of terms[i].base + terms[i].a[k] + terms[i].b[k] over i) for k
// in [0, count). Values may be infinite. Requires: `least` overlaps none of the terms.
void LowerToTerms(std::span<const SumTerm> terms, size_t count, double* least);

// The minimum of cost[d] + price * d over d in [0, count). Costs may be infinite.
// Requires: count > 0.
double LeastAtPrice(const double* cost, double price, size_t count);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_SUM_H_

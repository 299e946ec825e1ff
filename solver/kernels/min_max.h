// The inner loop of the dynamic program for the least memory of the parts of a chain (FillLeast()
// in algorithms/part_sizes.h): a min-max product instead of the min-plus product of min_plus.h.
// Vectorized with Highway. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_MAX_H_
#define STOWAGE_SOLVER_KERNELS_MIN_MAX_H_

#include <cstddef>
#include <cstdint>

namespace stowage {

// The memory needs of splitting the parts [s..t] of row s after stage k, for consecutive t. Index i
// is t - (k+1). Borrows its arrays, which have one entry for each t.
template <typename T>
struct SplitNeed {
  T kept = 0;                   // output[k], kept while [k+1..t] runs
  T front = 0;                  // K(s,k)
  T sweep = 0;                  // need of the sweep s..k, without the gradient
  const T* rest = nullptr;      // K(k+1,t)
  const T* gradient = nullptr;  // |δ^t|, held during the sweep
};

// least[i] = min(least[i], max(rest[i] + kept, gradient[i] + sweep, front)) for i in [0, count).
// The sums must not overflow.
void LowerLeast(const SplitNeed<int32_t>& split, size_t count, int32_t* least);
void LowerLeast(const SplitNeed<int64_t>& split, size_t count, int64_t* least);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_MAX_H_

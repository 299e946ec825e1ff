// The inner loop of the programs for the least memory of the parts of a chain: a min-max product
// where min_plus.h has a min-plus one. Vectorized; thread-safe.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_MAX_H_
#define STOWAGE_SOLVER_KERNELS_MIN_MAX_H_

#include <cstddef>
#include <cstdint>

namespace stowage {

// What one split point k of row s contributes, the same for every t: the rest of the part runs
// while `kept` is there, then the front needs `front`; the sweep needs `sweep` beside the gradient
// of t.
template <typename T>
struct SplitNeed {
  T kept = 0;
  T front = 0;
  T sweep = 0;
};

// least[i] = min(least[i], max(rest[i] + kept, gradient[i] + sweep, front)) for i in [0, count).
void LowerLeast(const SplitNeed<int32_t>& split, const int32_t* rest, const int32_t* gradient,
                size_t count, int32_t* least);
void LowerLeast(const SplitNeed<int64_t>& split, const int64_t* rest, const int64_t* gradient,
                size_t count, int64_t* least);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_MAX_H_

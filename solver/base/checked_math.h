// Arithmetic at the ends of numbers: 64 bits with overflow detection, and infinite times. Pure.
#ifndef STOWAGE_SOLVER_BASE_CHECKED_MATH_H_
#define STOWAGE_SOLVER_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <limits>
#include <optional>

namespace stowage {

// The time of what is not possible: more than every other, also after additions.
inline constexpr double kInfiniteSeconds = std::numeric_limits<double>::infinity();

// a + b, or nullopt when it does not fit in 64 bits.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or INT64_MAX on overflow. For sizes that are only compared with a limit.
// Requires: a, b >= 0.
inline int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return INT64_MAX;
  return product;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_CHECKED_MATH_H_

// Times of the steady clock, in seconds.
#ifndef STOWAGE_SOLVER_BASE_TIME_CLOCK_H_
#define STOWAGE_SOLVER_BASE_TIME_CLOCK_H_

#include <algorithm>
#include <chrono>

namespace stowage {

// 0 where `end` comes first.
inline double SecondsBetween(std::chrono::steady_clock::time_point begin,
                             std::chrono::steady_clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

inline std::chrono::steady_clock::time_point After(std::chrono::steady_clock::time_point begin,
                                                   double seconds) {
  constexpr double kLong = 1e8;  // more would overflow the clock
  return begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                     std::chrono::duration<double>(std::min(seconds, kLong)));
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_TIME_CLOCK_H_

// How long the reads of a cache tier took, as a histogram.
#ifndef STOWAGE_SERVER_CACHE_TIERS_READ_TIMES_H_
#define STOWAGE_SERVER_CACHE_TIERS_READ_TIMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace stowage {

// Not thread-safe.
struct ReadTimes {
  // In seconds, included: from a Redis in the same rack to the time-out of a disk.
  static constexpr std::array kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                         0.025,  0.05,    0.1,    0.25,  0.5,    1.0};

  void Add(double read_seconds) {
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), read_seconds);
    ++counts[static_cast<size_t>(bound - kBounds.begin())];
    seconds += read_seconds;
  }

  std::array<int64_t, kBounds.size() + 1> counts = {};  // the last: above all bounds
  double seconds = 0;                                   // of all reads
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_READ_TIMES_H_

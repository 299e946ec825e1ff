// The simulator's result for a schedule. No other code produces these figures. Bytes and seconds.
// Source: solver/README.md, "Operations and schedules"; server/README.md, "RPCs".
#ifndef STOWAGE_SOLVER_MODEL_PREDICTION_H_
#define STOWAGE_SOLVER_MODEL_PREDICTION_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace stowage {

// Relative tolerance: sums of the same times in different orders differ by less.
inline constexpr double kSummationError = 1e-12;

// a / b - 1; 0 where b is 0 or where a and b differ by no more than the rounding of sums.
inline double RelativeExcess(double a, double b) {
  return std::abs(a - b) > kSummationError * b && b > 0 ? a / b - 1 : 0;
}

struct Prediction {
  double makespan_seconds = 0;  // when the last operation ends
  double compute_seconds = 0;   // all forwards and backwards, recomputation included
  // The part of it beyond one forward of each stage and one backward in the stage's own way.
  double recompute_seconds = 0;
  double idle_seconds = 0;        // makespan minus compute
  int64_t peak_memory_bytes = 0;  // highest memory of any operation on the device
  int64_t peak_host_bytes = 0;    // highest total of offloaded values on the host
  // makespan / (one forward and one backward of every stage) - 1; 0 where those take no time
  double overhead = 0;
  double lower_bound_seconds = 0;  // no schedule within the limits is faster
  double gap = 0;                  // makespan / lower bound - 1; 0 where the bound is 0
};

// One operation of a simulated schedule.
struct TimelineEntry {
  double start_seconds = 0;
  double end_seconds = 0;
  int64_t memory_bytes = 0;         // on the device while it runs, its overhead included
  int64_t host_bytes = 0;           // on the host while it runs
  std::optional<size_t> waits_for;  // the operation of another queue that delays this one
};

struct Simulation {
  Prediction prediction;
  // The first operation that exceeds a memory limit of the platform, device or host.
  std::optional<size_t> first_over_limit;

  bool feasible() const { return !first_over_limit.has_value(); }
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_PREDICTION_H_

// Exhaustive search over all schedules without offloading. Simple and slow. Shares no code with the
// solvers or the simulator: it counts memory itself. For chains of up to 5 stages, and longer ones
// with few choices.
#ifndef STOWAGE_TESTS_SUPPORT_BRUTE_FORCE_H_
#define STOWAGE_TESTS_SUPPORT_BRUTE_FORCE_H_

#include <cstdint>
#include <optional>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

enum class ScheduleClass {
  // The class of RR-9302: persistent, and a stage runs again only when no value at or after it is
  // live (the recomputation of a part starts after the part behind it is done).
  kNestedPersistent,
  // The "revolve" subset of RR-9302: a stage that may run again is saved only right before its
  // backward.
  kOutputsOnly,
  // A value that the next forward does not drop stays until the BACKWARD that drops it, or until
  // a FORWARD_SAVE_DISCARD. What that saves stays until its BACKWARD.
  kPersistent,
  // A value may be dropped whenever an operation allows it.
  kAny,
};

struct BruteForceResult {
  double seconds = 0;
  Schedule schedule;
};

// The fastest schedule of the class within `memory_bytes`; nullopt when there is none.
std::optional<BruteForceResult> FastestByBruteForce(const Chain& chain, int64_t memory_bytes,
                                                    ScheduleClass schedules);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_BRUTE_FORCE_H_

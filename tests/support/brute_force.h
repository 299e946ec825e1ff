// Every schedule without offloading, tried: naive, slow and obviously right. Shares no code with
// the solvers nor with the simulator: it keeps its own account of memory. For chains of up to 5
// stages, and longer ones that leave few choices.
#ifndef STOWAGE_TESTS_SUPPORT_BRUTE_FORCE_H_
#define STOWAGE_TESTS_SUPPORT_BRUTE_FORCE_H_

#include <cstdint>
#include <optional>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

enum class ScheduleClass {
  // RR-9302's: persistent, and a stage runs again only when nothing at or after it is live any more
  // (the recomputation of a part starts when the part behind it is done).
  kNestedPersistent,
  // Of these, RR-9302's "revolve": a stage that may run again is saved right before its backward
  // only.
  kOutputsOnly,
  // A value that the next forward to read it did not drop stays until the BACKWARD that drops it.
  kPersistent,
  // Any value may be dropped at any time that an operation allows.
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

// The fastest program under the POFO paper's relaxation of transfers, by exhaustive search. Simple
// and slow. Uses no recurrence: it counts device memory operation by operation, as solver/README.md
// does. For chains of up to 5 stages.
//
// The relaxation (solver/README.md, "POFO's equations, corrected"): all offloads happen before the
// backward of the loss and all prefetches after its forward, offloads first. A value is offloaded
// entirely or not at all, but its memory is freed byte by byte during the copy, and taken byte by
// byte during the prefetch. A value must be complete when an operation that reads it starts. It may
// leave while its last reader of the forward phase runs, and must be back when its first reader of
// the backward phase starts. Latency, host memory and half_duplex are ignored.
#ifndef STOWAGE_TESTS_SUPPORT_RELAXED_SEARCH_H_
#define STOWAGE_TESTS_SUPPORT_RELAXED_SEARCH_H_

#include <optional>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct RelaxedProgram {
  Schedule computation;        // forwards and backwards only
  std::vector<int> offloaded;  // values that are on the host around the loss
};

// The least makespan of one program, with every operation as early as its memory is free. nullopt
// if waiting cannot free enough memory or a value of `offloaded` may not or cannot leave. Requires:
// `computation` is valid with enough memory, and its values of `offloaded` are on the device when
// the loss runs. O(operations * stages).
std::optional<double> RelaxedSeconds(const Chain& chain, const Platform& platform,
                                     const RelaxedProgram& program);

struct RelaxedResult {
  double seconds = 0;
  RelaxedProgram program;
};

// Of all nested persistent programs (ScheduleClass::kNestedPersistent in brute_force.h), with every
// subset of what is on the device at the loss offloaded. nullopt when nothing fits.
std::optional<RelaxedResult> FastestRelaxed(const Chain& chain, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_RELAXED_SEARCH_H_

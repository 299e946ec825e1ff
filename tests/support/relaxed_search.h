// The fastest program under the POFO paper's relaxation of transfers, by trying every one: naive,
// slow and obviously right. Knows no recurrence: it keeps its own account of what is on the device,
// operation by operation, as solver/README.md counts it. For chains of up to 5 stages.
//
// The relaxation (solver/README.md, "POFO's equations, corrected"). All offloads happen before the
// loss's backward and all prefetches after its forward, first the ones, then the others. A value is
// offloaded whole or not at all, but its memory is freed byte by byte while it is copied, and taken
// so when it comes back. A value must be whole when an operation that reads it starts; it may leave
// while the last of the forward phase reads it, and it must be back when the first of the backward
// phase that needs it starts. Latency, the host's memory and half_duplex are ignored.
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

// The least makespan of one program, every operation as soon as its memory is free; nullopt when
// waiting does not help or a value of `offloaded` may not or cannot leave.
// Requires: `computation` is valid with enough memory, and its values of `offloaded` are on the
// device when the loss runs. O(operations * stages).
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

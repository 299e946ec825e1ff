// Explains a schedule's memory peaks and idle time. The result contains data; client/text prints
// it.
#ifndef STOWAGE_SOLVER_SIMULATOR_EXPLAIN_H_
#define STOWAGE_SOLVER_SIMULATOR_EXPLAIN_H_

#include <vector>

#include "solver/model/chain.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"
#include "solver/simulator/simulator.h"

namespace stowage {

// Requires: `timeline` is what Simulate() filled for this executed schedule and platform.
// O(operations + stages), thread-safe.
Explanation Explain(const ExecutedSchedule& executed, const Platform& platform,
                    const std::vector<TimelineEntry>& timeline);

// What takes the memory of each operation: the sum is its TimelineEntry::memory_bytes.
// Requires: Simulate() accepts the schedule. O(operations + stages), thread-safe.
std::vector<MemoryByKind> ExplainMemory(const Chain& chain, const Platform& platform,
                                        const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_EXPLAIN_H_

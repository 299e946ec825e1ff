// The memory range of a chain: M_low, below which no schedule exists, and M_high, which storing
// everything takes. Source: solver/README.md, "Least and most". Pure, thread-safe.
// Requires of all: Violations(chain) is empty.
#ifndef STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_
#define STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

struct MemoryFloor {
  int64_t bytes = 0;    // M_low
  Operation operation;  // the first that needs it
};

// M_low: the most that any one operation needs by itself. Every schedule runs FORWARD_SAVE l and
// BACKWARD l for every l, so no schedule exists below it. A value that a stage reads is at least
// its output, and all of what it saves where the stage is no_recompute, which only ever saves.
// A stage that has a graph mode takes the one that needs less. O(stages).
MemoryFloor FloorOfMemory(const Chain& chain);

// M_high: the peak of storing everything in eager mode. O(stages).
int64_t StoreAllPeakBytes(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_

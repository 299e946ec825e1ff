// The memory range of a chain: M_low, below which no schedule exists, and M_high, the peak of
// storing everything. Source: solver/README.md, "The range of budgets". Pure, thread-safe.
// Every function requires: Violations(chain) is empty, and `units` are the chain's.
#ifndef STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_
#define STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/schedule.h"

namespace stowage {

struct MemoryFloor {
  int64_t bytes = 0;    // M_low
  Operation operation;  // the first that needs it
};

// M_low: the maximum over the operations FORWARD_SAVE l and BACKWARD l, which every schedule runs,
// of the memory that the operation needs by itself. The value that it reads counts as a^(l-1), or
// as ā^(l-1) where stage l-1 is no_recompute and hence always saved; beside a backward that does
// not read it, it counts in the latter case only. A unit with a graph mode counts in the mode that
// needs less. O(stages).
MemoryFloor FloorOfMemory(const Chain& chain, const ChainUnits& units);
MemoryFloor FloorOfMemory(const Chain& chain);  // finds the units itself

// M_high: the peak of storing everything in eager mode. O(stages).
int64_t StoreAllPeakBytes(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_MEMORY_RANGE_H_

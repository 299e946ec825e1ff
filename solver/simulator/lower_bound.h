// What no schedule of a chain can go below, and what storing everything takes.
// Source: model.md, "Least and most". Pure, thread-safe, O(stages).
// Requires of all: Violations(chain) is empty.
#ifndef STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_
#define STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// No schedule is faster: every stage runs forward and backward once on one compute queue.
double LowerBoundSeconds(const Chain& chain);

struct MemoryFloor {
  int64_t bytes = 0;    // M_low
  Operation operation;  // the first that needs it
};

// M_low: the most that any one operation needs by itself. Every schedule runs FORWARD_SAVE l and
// BACKWARD l for every l, so no schedule exists below it. A value that a stage reads is at least
// its output, and all of what it saves where the stage is no_recompute, which only ever saves.
MemoryFloor FloorOfMemory(const Chain& chain);

// M_high: the peak of storing everything.
int64_t StoreAllPeakBytes(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_

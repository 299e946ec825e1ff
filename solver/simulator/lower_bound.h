// What no schedule of a chain can go below, and what storing everything takes.
// Source: model.md, "Least and most". Pure, thread-safe.
// Requires of all: Violations() of chain and platform are empty.
#ifndef STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_
#define STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_

#include <cstdint>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// No schedule within the platform's limits is faster. At least Chain::ComputeSeconds(), and more
// where memory is short: at every moment of a step what the device cannot hold was copied to the
// host in the time before and comes back in the time after, or is computed again (cut_bound.h).
// Some number where no schedule is within the limits. More memory and faster transfers never raise
// it, save for less than the search for whole values is cut short by (chains of some tens of stages
// and more). O(stages * log(stages)): half a millisecond for 340 stages, 10 for 10,000.
double LowerBoundSeconds(const Chain& chain, const Platform& platform);

// Sets lower_bound_seconds and gap of the prediction of a schedule. If it is over a limit, they are
// those of the limits that it keeps: the bound is never above its makespan.
void FillBound(const Chain& chain, const Platform& platform, Prediction* prediction);

// Whether a schedule with that prediction is as fast as its bound: then none is faster.
bool MeetsBound(const Prediction& prediction);

// a / b - 1; 0 where b is 0, and where they are the same sum added up in another order.
double Excess(double a, double b);

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

#endif  // STOWAGE_SOLVER_SIMULATOR_LOWER_BOUND_H_

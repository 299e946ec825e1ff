// What no schedule of a chain can go below, and what storing everything takes.
// Source: solver/README.md, "Least and most". Pure, thread-safe.
// Requires of all: Violations() of chain and platform are empty.
#ifndef STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// No schedule within the platform's limits is faster. At least ComputeSeconds(chain), and more
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

// Simulate(), and then FillBound().
absl::StatusOr<Simulation> SimulateWithBound(const Chain& chain, const Platform& platform,
                                             const Schedule& schedule,
                                             std::vector<TimelineEntry>* timeline = nullptr);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_

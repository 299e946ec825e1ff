// Lower bounds on the makespan, and their use in predictions.
// Source: solver/README.md, "The range of budgets". Pure, thread-safe.
// Requires of all: Violations() of chain and platform are empty, and `units` are the chain's.
#ifndef STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_
#define STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_

#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/bounds/recurrence_bound.h"
#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// A lower bound in seconds on the makespan of every schedule within the platform's limits: the
// larger of ComputeSeconds(chain) and the cut bound of cut_bound.h. The cut bound exceeds the
// former where memory is short: what the device cannot hold at an operation was offloaded before it
// and is prefetched after it, or is recomputed. The value is unspecified where no schedule fits the
// limits. It does not grow with memory or bandwidth, except by what the search loses when its limit
// of steps ends it early (chains of some tens of stages and more). O(stages * log(stages)): half a
// millisecond for 340 stages, 10 for 10,000.
double LowerBoundSeconds(const Chain& chain, const ChainUnits& units, const Platform& platform);
double LowerBoundSeconds(const Chain& chain, const Platform& platform);  // finds the units itself

// Sets lower_bound_seconds and gap of a schedule's prediction. A memory limit that the schedule
// exceeds is raised to its peak first, so that the bound never exceeds its makespan.
void FillBound(const Chain& chain, const ChainUnits& units, const Platform& platform,
               Prediction* prediction);

// Raises lower_bound_seconds of a prediction that FillBound() has filled, and lowers its gap,
// unless the makespan meets the bound already: to the recurrence bound of recurrence_bound.h, and
// with BoundTime::kLong of a short chain to the least makespan where
// short_program_search.h finds it. Takes as long as these; returns without a better bound once
// `stop` is set; throws std::bad_alloc.
void RaiseBound(const Chain& chain, const Platform& platform, Prediction* prediction,
                BoundTime time, const std::stop_token& stop = {});

// Sets the bound of a schedule that is known to be the fastest of all.
void SetBoundToMakespan(Prediction* prediction);

// Whether the makespan equals the lower bound, up to the rounding of sums: no schedule is faster
// then.
bool MeetsBound(const Prediction& prediction);

// Simulate() followed by FillBound(). Errors: those of Simulate().
absl::StatusOr<Simulation> SimulateWithBound(const Chain& chain, const Platform& platform,
                                             const Schedule& schedule,
                                             std::vector<TimelineEntry>* timeline = nullptr);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_LOWER_BOUND_H_

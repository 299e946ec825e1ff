// The solution of Mixed Mode for one instance with a graph mode: tables built once, then the best
// splits for any budget.
//
// For a budget in bytes, in this order:
//   1. Everything stored, every unit in its fastest mode, is the answer where it fits.
//   2. Level search. Memory is counted in slots, rounded to nearest, up to a little beyond the
//      budget (slot_grid.h), so only the simulator decides whether splits fit. The search starts
//      at a level (budget in slots) above the budget and goes down by the excess until the schedule
//      fits in bytes; that one wins.
//   3. Where no level's schedule fits: rotor, in bytes, on the modes of the last splits that were
//      too large, or the splits of least memory (mixed_minimum.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SOLUTION_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SOLUTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/instance.h"
#include "solver/model/schedule.h"

namespace stowage {

// How splits are found for a level.
enum class SplitProgram {
  kConvex,  // convex_splits.h, proved by split_certificate.h
  kExact    // mixed_splits.h, for all levels at once
};

// The solver's name in the catalog.
const char* NameOf(SplitProgram program);

// Everything stored, every unit in the mode that is fastest with unlimited memory. No schedule is
// faster.
struct StoredSchedule {
  Schedule schedule;
  int64_t peak_bytes = 0;
};
StoredSchedule FastestStored(const Instance& instance);

// An upper bound on the bytes that BuildMixedSolution() allocates; INT64_MAX on overflow.
int64_t MixedSolutionBytes(SplitProgram program, const Instance& instance);

// Requires: instance.units().HasGraph(). O(N^3 M) time for the tables, and O(N^2 M^2) with
// kExact. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::unique_ptr<const Solution>> BuildMixedSolution(SplitProgram program,
                                                                   const Instance& instance,
                                                                   const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SOLUTION_H_

// Rotor: the fastest persistent rematerialization of a heterogeneous chain (RR-9302, Theorem 1,
// Algorithms 1 and 2), in the memory model of solver/README.md.
//
// "Persistent" is the report's class of schedules: a checkpoint stays until its backward, and a
// stage is recomputed only when no later value is live.
//
// A solve proceeds as follows:
// 1. The least memory, exact in bytes (rotor_minimum.h).
// 2. If storing everything fits every budget that will be queried, nothing else is built.
// 3. Short chains: the exact optimum for every budget, in bytes (rotor_steps.h), unless that
//    exceeds its limit of work or the memory of a slot table.
// 4. Otherwise a table over memory slots, 500 by default (rotor_table.h). Sizes are rounded to
//    nearest on the best-fitting grid of about that many slots, and the table extends beyond the
//    budget. For a budget, the schedule of the highest level that fits in bytes is used. Close to
//    the least memory, schedules guided by the table but counted in bytes (rotor_guided.h) compete
//    with it.
// Chains with input_unread stages or several ways to save a stage have a least memory and a table
// of their own (leaving_minimum.h, leaving_table.h); the latter in place of the table above or,
// where it is coarser, beside it. With at least as many slots as the instance has granules, nothing
// is rounded. Every budget for which a persistent schedule exists gets a schedule.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_

#include <memory>

#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^3 S) time at most, O(L^2 S) memory.
std::unique_ptr<Solver> MakeRotor();

// Rotor without step 3. For chains of up to 64 stages a solve takes a few milliseconds instead of
// up to 50, and is subject to the rounding of slots.
std::unique_ptr<Solver> MakeRotorWithoutExactSteps();

// The common solver of rotor and revolve: Theorem 1 with a rule for saving. `name` must be static.
std::unique_ptr<Solver> MakePersistentSolver(const char* name, Saving saving);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_

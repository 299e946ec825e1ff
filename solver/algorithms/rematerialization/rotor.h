// Rotor: the fastest persistent rematerialization of a heterogeneous chain (RR-9302, Theorem 1,
// Algorithms 1 and 2), in the memory model of solver/README.md.
//
// "Persistent" is the report's class: a checkpoint stays until its backward, and the forwards of a
// stage run again only when no later value is live.
//
// Short chains are solved in bytes, exactly (rotor_steps.h), unless that takes too long or more
// memory than a table of slots. Otherwise memory is counted in slots (500 by default;
// rotor_table.h): sizes are rounded to nearest, on the grid of about as many slots on which they
// fit best, the table goes some way beyond the budget, and the schedule of its highest level that
// fits in bytes wins, unless one that follows the table but counts in bytes (rotor_guided.h) is
// faster. With at least as many slots as the instance has granules nothing is rounded. Every budget
// with a persistent schedule gets one.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_

#include <memory>

#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^3 S) time at most, O(L^2 S) memory.
std::unique_ptr<Solver> MakeRotor();

// By slots alone, without the exact steps that chains of some sixty stages are given otherwise:
// what takes up to 50 ms there takes a few, and loses what slots round away.
std::unique_ptr<Solver> MakeRotorOfSlots();

// What rotor and revolve have in common: Theorem 1 under a rule for saving.
std::unique_ptr<Solver> MakePersistentSolver(const char* name, Saving saving);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_H_

// Rotor: the fastest persistent rematerialization of a heterogeneous chain (RR-9302, Theorem 1,
// Algorithms 1 and 2), in the memory model of model.md.
//
// "Persistent" is the report's class: a checkpoint stays until its backward, and the forwards of a
// stage run again only when no later value is live. Memory is counted in `memory_slots` equal slots
// (500 by default) of the budget, or of what storing everything takes where that is less. With at
// least as many slots as the instance has granules nothing is rounded and the answer is the
// optimum. Otherwise sizes are rounded to nearest, and up in a second table; the schedules of both
// are measured in bytes and the fastest that fits wins; a schedule of least memory stands behind
// them, so that every budget with a persistent schedule gets one.
#ifndef STOWAGE_SOLVER_ALGORITHMS_ROTOR_H_
#define STOWAGE_SOLVER_ALGORITHMS_ROTOR_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L^3 S) time, O(L^2 S) memory.
std::unique_ptr<Solver> MakeRotor();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_ROTOR_H_

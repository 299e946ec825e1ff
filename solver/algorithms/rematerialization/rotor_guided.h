// Schedules guided by a slot table but with memory counted in bytes. Invariant: every part [s..t]
// is given at least K(s,t) bytes (rotor_minimum.h). Among the choices that keep the invariant, a
// part takes the one with the least time according to the table:
//   save s       m - ā^s bytes for [s+1..t]
//   split at k   m - a^k bytes for [k+1..t], m bytes for [s..k]
// The schedule therefore always fits, even with no more than the least memory, where the table's
// own schedules may all exceed the budget by a slot. A greedy descent: no guarantee on the time.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_

#include <cstdint>
#include <optional>

#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/model/schedule.h"

namespace stowage {

// nullopt if `memory_bytes` is below the least or the schedule would have more than kMaxOperations
// operations. O(parts of the schedule x their lengths). `levels_up` is added to the level at which
// the table is read, to compensate for sizes that were rounded up.
// Requires: `table` and `minimum` are built for the same chain and Saving.
std::optional<Schedule> GuidedSchedule(const RotorTable& table, const RotorMinimum& minimum,
                                       int64_t memory_bytes, int64_t levels_up = 0);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_

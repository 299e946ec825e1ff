// A schedule that follows a table of memory slots but counts its memory in bytes: at each part it
// takes, of the choices that RotorMinimum shows to be feasible within the bytes that are left, the
// one with the least time by the table. It always fits, however little memory there is beyond the
// least, where a table's own schedules may all be off by a slot.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_

#include <cstdint>
#include <optional>

#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/model/schedule.h"

namespace stowage {

// Both were built for one chain and one Saving. nullopt when `memory_bytes` is below the least, or
// the schedule would have more than kMaxOperations. O(parts of the schedule x their lengths).
// `levels_up`: so many levels above what it has it looks parts up in the table, in case that
// rounding makes them look larger than they are.
std::optional<Schedule> GuidedSchedule(const RotorTable& table, const RotorMinimum& minimum,
                                       int64_t memory_bytes, int64_t levels_up = 0);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_GUIDED_H_

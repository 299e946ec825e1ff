// How fine the tables over memory slots of a persistent solve are, and what they take.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PLAN_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PLAN_H_

#include <cstdint>
#include <optional>

#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/rematerialization/leaving_table.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/model/instance.h"

namespace stowage {

// Tables of fewer slots round too much to be relied on.
inline constexpr int64_t kFewSlots = 50;

// The slot table of one solve.
struct TablePlan {
  RotorTable::Options table;
  int64_t table_bytes = 0;    // upper bound on its working memory
  int64_t lowest_budget = 0;  // the lowest budget in bytes for which it is fine enough
};

// `lowest_bytes`: the lowest budget that will be queried.
TablePlan PlanOf(const Instance& instance, Saving saving, int64_t lowest_bytes);

// Upper bound on the table's bytes without searching for the grid, which is slow. Grows with the
// requested slots, up to one for each granule.
int64_t TableBytes(const Instance& instance, Saving saving);

// The table of a chain whose inputs may leave: as fine as PlanOf()'s, unless that takes too long.
// nullopt where no input may leave, or too few slots would be left.
std::optional<LeavingTable::Options> LeavingPlanOf(const Instance& instance, const TablePlan& plan,
                                                   Saving saving);

// An upper bound on what chains with leaving parts take beside RotorMinimum and one table:
// LeavingMinimum, the table of the own ways and that of LeavingPlanOf().
int64_t LeavingBytes(const Instance& instance, Saving saving);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PLAN_H_

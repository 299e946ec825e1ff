// What the two programs of rotor share: the parts of a chain, their memory needs, and how a tree of
// choices becomes a schedule.
//
// A part [s..t] starts with value s-1 and δ^t on the device and ends with δ^(s-1) in place of δ^t.
// Value s-1 is counted outside the part's memory. A part starts in one of two ways (RR-9302,
// Theorem 1):
//   save        FORWARD_SAVE s, part [s+1..t], BACKWARD s
//   checkpoint  FORWARD_CHECKPOINT s, FORWARD_DISCARD s+1 .. s'-1, part [s'..t], part [s..s'-1]
// A `no_recompute` stage can only be saved, so a checkpoint's sweep stops before it.
//
// Stages count from 1 here, as in schedules; what parts need stands in part_sizes.h.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PART_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PART_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

struct RotorPart {
  int s = 0;
  int t = 0;
  int64_t level = 0;  // of memory, in the unit of the program that chooses
};

// How a part starts. The part left for later, [s..split-1], keeps the level.
struct RotorChoice {
  int split = 0;                // 0: save s; else s'
  int64_t remaining_level = 0;  // of part [s+1..t] or [s'..t]
};

// The schedule that `choose` describes, from the root part down; nullopt when it would have more
// than kMaxOperations. Not recursive: chains are long.
std::optional<Schedule> UnrollChoices(const RotorPart& root,
                                      const std::function<RotorChoice(const RotorPart&)>& choose);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PART_H_

// The parts of rotor's dynamic programs, and the conversion of a tree of choices to a schedule.
//
// A part [s..t] begins with value s-1 and δ^t on the device and ends with δ^(s-1) instead of δ^t.
// Value s-1 is not included in the part's memory. A part runs in one of two ways
// (RR-9302, Theorem 1):
//   save        FORWARD_SAVE s, part [s+1..t], BACKWARD s
//   checkpoint  FORWARD_CHECKPOINT s, FORWARD_DISCARD s+1 .. s'-1, part [s'..t], part [s..s'-1]
// Where stage s is input_unread and nobody else needs value s-1, it may *leave* early: saving
// begins with FORWARD_SAVE_DISCARD s then, and a checkpoint's part [s..s'-1] has the same choice.
// That is so for a part behind a split and for the whole chain, not behind a saved stage s-1, whose
// own backward needs all of ā^(s-1). Saving has a case for each of the stage's ways (save_ways.h).
// A `no_recompute` stage can only be saved, so a sweep (the
// forwards s .. s'-1) ends before it.
//
// Stages are numbered from 1 here, as in schedules. The memory needs are in part_sizes.h.
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
  int64_t level = 0;    // memory for the part, in the unit of the caller: slots or bytes
  bool leaves = false;  // value s-1 leaves once stage s has been saved
};

// How a part runs. With a split, the front part [s..split-1] has the level of the whole part.
struct RotorChoice {
  int split = 0;                // 0: save stage s; otherwise s'
  int64_t remaining_level = 0;  // for part [s+1..t] or [s'..t]
  bool rest_leaves = false;     // of part [s'..t]: RotorPart::leaves
  int save_option = 0;          // where stage s is saved
};

// The schedule of the root part when every part of two or more stages runs as `choose` says.
// nullopt if it would have more than kMaxOperations operations. Iterative, because the depth can
// reach the number of stages. O(operations) plus the calls of `choose`. Parts of one stage are
// saved in its own way, unless `one_stage` is kChosen.
enum class OneStage { kOwnWay, kChosen };
std::optional<Schedule> UnrollChoices(const RotorPart& root,
                                      const std::function<RotorChoice(const RotorPart&)>& choose,
                                      OneStage one_stage = OneStage::kOwnWay);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_ROTOR_PART_H_

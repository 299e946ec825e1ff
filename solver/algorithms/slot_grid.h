// How bytes become the memory slots of a dynamic program.
#ifndef STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_
#define STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_

#include <cstdint>

#include "solver/model/chain.h"

namespace stowage {

// `slots` of them make `bytes`.
struct SlotGrid {
  enum class Rounding {
    kUp,       // what fits in slots fits in bytes
    kNearest,  // less is lost, but the schedule's true peak must be checked
  };

  int64_t bytes = 0;
  int64_t slots = 0;
  Rounding rounding = Rounding::kUp;

  int64_t Slots(int64_t size_bytes) const;
  // Whether the grid rounds none of the sizes that are multiples of `granule_bytes`.
  bool IsExact(int64_t granule_bytes) const { return bytes == slots * granule_bytes; }
};

// The grid of some 0.7 to 1.5 times `slots`, rounding to nearest, on which the sizes of the
// chain's values fit best: where stages are alike, what one of them loses to rounding all of them
// lose. O(slots x stages).
SlotGrid BestFittingGrid(const Chain& chain, int64_t bytes, int64_t slots);

// How many levels a table of that grid needs so that a schedule that the grid's rounding takes for
// larger than it is is not missed. For grids that round to nearest.
int64_t LevelsBeyond(const Chain& chain, const SlotGrid& grid);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_

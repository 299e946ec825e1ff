// Conversion of bytes to the memory slots of a dynamic program. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_
#define STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_

#include <cstdint>

#include "solver/model/chain.h"

namespace stowage {

// A grid on which `bytes` bytes are `slots` slots.
struct SlotGrid {
  enum class Rounding {
    kUp,       // what fits in slots also fits in bytes
    kNearest,  // smaller errors, but the peak in bytes must be checked
  };

  int64_t bytes = 0;
  int64_t slots = 0;
  Rounding rounding = Rounding::kUp;

  // `size_bytes` in slots, rounded. Without memory (bytes == 0) every size exceeds all levels.
  int64_t Slots(int64_t size_bytes) const;
  // Whether sizes that are multiples of `granule_bytes` are converted without rounding.
  bool IsExact(int64_t granule_bytes) const { return bytes == slots * granule_bytes; }
};

// The grid with 0.7 to 1.5 times `slots` slots, rounding to nearest, that fits the chain's values
// best. In chains of similar stages the same rounding error occurs at every stage and accumulates,
// so the choice of the grid matters. O(min(slots, 1000) x stages).
SlotGrid BestFittingGrid(const Chain& chain, int64_t bytes, int64_t slots);

// The number of levels that a table on `grid` needs, above grid.slots, so that schedules that fit
// in bytes but look too large in rounded slots are not missed. For grids that round to nearest.
int64_t LevelsBeyond(const Chain& chain, const SlotGrid& grid);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_SLOT_GRID_H_

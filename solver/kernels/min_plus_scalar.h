// The scalar version of the vectorized kernel: the recurrence of min_plus.h evaluated part by part
// and level by level, without skipping. The reference that every target must match bit by bit, and
// the fallback.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_

#include "solver/kernels/min_plus_table.h"

namespace stowage {

// Same contract as FillTile().
void FillTileScalar(const TableView& table, int chunk, int row, int column);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_

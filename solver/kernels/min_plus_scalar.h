// The scalar twin of the vectorized kernel: the recurrence of min_plus.h, part by part and level by
// level, nothing skipped. What the others must equal to the bit.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_

#include "solver/kernels/min_plus.h"

namespace stowage {

// As FillTile().
void FillTileScalar(const TableView& table, int chunk, int row, int column);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_PLUS_SCALAR_H_

// Fills the table of a RotorTable with as many threads as are free.
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_TABLE_FILLER_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_TABLE_FILLER_H_

#include "solver/algorithms/solver.h"
#include "solver/kernels/min_plus.h"

namespace stowage {

// Fills all chunks of `view`, whose scratch is set. Reports progress from the calling thread. False
// once the solve is cancelled.
bool FillTable(const TableView& view, const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_TABLE_FILLER_H_

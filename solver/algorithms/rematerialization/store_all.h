// Stores everything: one forward sweep that saves every stage, then one backward sweep. No schedule
// is faster, so it is optimal wherever it fits. Its peak: StoreAllPeakBytes()
// (bounds/memory_range.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_

#include <memory>

#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// O(stages).
Schedule StoreAllSchedule(const Chain& chain);

// Recomputes and offloads nothing. O(stages) time and memory.
std::unique_ptr<Solver> MakeStoreAll();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_

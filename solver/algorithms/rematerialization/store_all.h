// Keeps everything: one forward sweep that saves, one backward sweep. The fastest schedule of all
// where it fits. O(stages).
#ifndef STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_
#define STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_

#include <memory>

#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

Schedule StoreAllSchedule(const Chain& chain);

std::unique_ptr<Solver> MakeStoreAll();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_REMATERIALIZATION_STORE_ALL_H_

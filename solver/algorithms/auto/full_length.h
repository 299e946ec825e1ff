// Which solvers `auto` asks for a chain as it is, whatever its length, rather than for a merged one
// (coarsening.h). Up to rounding, `auto` is never slower than these. The limits are where a solver
// begins to take a large part of the time of `auto`; README.md, "Long chains", has the times.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_FULL_LENGTH_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_FULL_LENGTH_H_

#include "absl/strings/string_view.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// Whether every solver is asked: the chain is short, or the platform has no link and rotor decides.
// O(1).
bool IsSolvedDirectly(const Chain& chain, const Platform& platform);

// Whether the solver of that name is asked, if its memory need allows it. Requires: no graph costs.
// O(stages).
bool AsksAtFullLength(absl::string_view solver, const Chain& chain, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_FULL_LENGTH_H_

// A schedule that is found in no time: what a request gets while, or where, nothing is solved.
#ifndef STOWAGE_SOLVER_SOLVE_FIRST_CANDIDATE_H_
#define STOWAGE_SOLVER_SOLVE_FIRST_CANDIDATE_H_

#include <optional>
#include <stop_token>

#include "solver/algorithms/solver.h"
#include "solver/model/chain_units.h"
#include "solver/model/request.h"

namespace stowage {

// The first that the simulator accepts of storing everything, checkpoints at equal distances, as
// few as possible, and halving. O(L log L) for a chain of L stages. nullopt: none fits, or `stop`
// is set. Requires: RequestViolations(request) is empty; `units` are its chain's. Thread-safe.
std::optional<Candidate> FirstCandidate(const SolveRequest& request, const ChainUnits& units,
                                        const std::stop_token& stop);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_FIRST_CANDIDATE_H_

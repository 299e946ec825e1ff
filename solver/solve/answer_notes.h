// What an answer says beside its schedule: of which class it is the best, and which of the
// request's fields its solver leaves unused.
#ifndef STOWAGE_SOLVER_SOLVE_ANSWER_NOTES_H_
#define STOWAGE_SOLVER_SOLVE_ANSWER_NOTES_H_

#include "solver/model/answer.h"
#include "solver/model/chain_units.h"
#include "solver/model/request.h"
#include "solver/solve/catalog.h"

namespace stowage {

// Names the class of which the answer is the best, unless an earlier answer's notes do.
void NoteClass(Answer* answer);

// Names each of link, graph costs, input_unread and save_options that the request has and `info`'s
// solver does not weigh. `units`: of the request's chain.
void NoteUnused(const SolveRequest& request, const ChainUnits& units, const SolverInfo& info,
                Answer* answer);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ANSWER_NOTES_H_

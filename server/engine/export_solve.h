// A Solve whose answer also has the best plan that a framework can express.
#ifndef STOWAGE_SERVER_ENGINE_EXPORT_SOLVE_H_
#define STOWAGE_SERVER_ENGINE_EXPORT_SOLVE_H_

#include <memory>

#include "server/engine/engine.h"
#include "server/engine/solves/waiter.h"
#include "solver/export/export.h"
#include "solver/model/request.h"

namespace stowage {

// Finds the plan, then solves `request`, each in its turn and within the limits of any other solve:
// Engine::Solve() of the target's own solver, which the cache and equal requests share, or
// Engine::FindSetting(). A time budget is of each, and of a caller's deadline the first one
// has half of the time. `listener` gets the events of the second solve, of the first one its place
// in the queue, and a result with SolveResult::exported.
// Errors: those of both, and of ExportOf(). Borrows the engine.
// Requires: as Engine::Solve(); chain and platform of `exported` are those of `request`.
void SolveAndExport(Engine& engine, SolveRequest request,
                    std::shared_ptr<const ExportRequest> exported, Caller caller,
                    std::shared_ptr<SolveListener> listener);

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_EXPORT_SOLVE_H_

// Verdicts on a job for several devices, each from a solve that the cache and equal requests share.
#ifndef STOWAGE_SERVER_ENGINE_ADMIT_JOB_H_
#define STOWAGE_SERVER_ENGINE_ADMIT_JOB_H_

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/solves/waiter.h"
#include "solver/model/request.h"
#include "solver/solve/admit.h"

namespace stowage {

using AdmitDone = absl::AnyInvocable<void(absl::StatusOr<std::vector<Verdict>>)>;

// Judges one device after the other, so that a call takes one place in the queue at a time; each
// has its part of what is left of the caller's deadline. Calls `done` exactly once, from a thread
// of the engine or before it returns, with Ranked() verdicts.
// Errors: those of Engine::Solve(). Borrows the engine.
// Requires: RequestViolations(request) is empty.
void AdmitJob(Engine& engine, AdmitRequest request, Caller caller, AdmitDone done);

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_ADMIT_JOB_H_

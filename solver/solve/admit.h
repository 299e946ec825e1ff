// Whether a job fits a device: with all layers kept, with a plan, or not. A plan is a solve of the
// job's chain, which the caller of this has done, since a server shares it with others.
// Source: solver/README.md, "Jobs". Thread-safe.
// Every function requires: RequestViolations(request) is empty, and there is such a device.
#ifndef STOWAGE_SOLVER_SOLVE_ADMIT_H_
#define STOWAGE_SOLVER_SOLVE_ADMIT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "solver/model/answer.h"
#include "solver/model/job.h"
#include "solver/model/request.h"
#include "solver/model/verdict.h"

namespace stowage {

// The verdict where the job fits as it is; nullopt: it takes a plan. O(stages).
std::optional<Verdict> VerdictWithoutPlan(const AdmitRequest& request, size_t device);
// The solve that finds the plan: the chain on what the rest of the job leaves of the device.
SolveRequest PlanRequest(const AdmitRequest& request, size_t device);
// The verdict with the answer to that. O(stages).
Verdict VerdictWithPlan(const AdmitRequest& request, size_t device,
                        std::shared_ptr<const Answer> answer);

// What is on the device at the peak of the verdict, in the order of the job's components, the
// layers last: the sum of the bytes, which are those on this device, is its peak_bytes.
std::vector<Component> PartsOfPeak(const TrainingJob& job, const Verdict& verdict);

// One verdict of each device, in their order, as AdmitResponse has them.
std::vector<Verdict> Ranked(const AdmitRequest& request, std::vector<Verdict> verdicts);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ADMIT_H_

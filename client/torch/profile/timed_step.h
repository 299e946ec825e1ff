// A step of which every command is measured.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_TIMED_STEP_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_TIMED_STEP_H_

#include "absl/status/statusor.h"
#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// Runs a step of `stages`, which have been fed, by `plan`, which is the executor's. Errors: those
// of FrameworkExecutor::Step().
absl::StatusOr<MeasuredStep> TimedStep(const Plan& plan, FrameworkExecutor* executor,
                                       TorchStages* stages, MemoryMeter* meter);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_TIMED_STEP_H_

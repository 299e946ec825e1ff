// Runs the steps of a training process by a plan: issues its commands to a device, in program order
// and without ever waiting for them in between.
#ifndef STOWAGE_CLIENT_AGENT_EXECUTOR_H_
#define STOWAGE_CLIENT_AGENT_EXECUTOR_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/agent/plan.h"
#include "client/agent/stages.h"

namespace stowage {

// When a command ran, in seconds since the step began.
struct CommandTimes {
  double start_seconds = 0;
  double end_seconds = 0;
};

struct StepReport {
  double seconds = 0;                  // from the first command's start to the last one's end
  std::vector<CommandTimes> commands;  // by command, where they were asked for
};

enum class Timing { kStepOnly, kEveryCommand };

// Holds the device memory and the pinned pool of its plan from Create() on; a step allocates
// nothing. Not thread-safe.
class PlanExecutor {
 public:
  // Borrows both. Errors: RESOURCE_EXHAUSTED from the device.
  static absl::StatusOr<std::unique_ptr<PlanExecutor>> Create(const Plan* plan, Device* device);
  ~PlanExecutor();
  PlanExecutor(const PlanExecutor&) = delete;
  PlanExecutor& operator=(const PlanExecutor&) = delete;

  // One forward and backward of the whole chain; returns when it is done. The first is for a plan
  // that places values, the second for one that does not.
  // Errors: the first of a stage or the device, beginning with the operation, as in
  //   "operations[12] BACKWARD 4: out of memory". Nothing is at work then, and nothing is lost but
  // the step: another may be tried.
  absl::StatusOr<StepReport> Step(Stages* stages, Timing timing = Timing::kStepOnly);
  absl::StatusOr<StepReport> Step(HeldStages* stages, Timing timing = Timing::kStepOnly);

 private:
  class Issue;

  PlanExecutor(const Plan* plan, Device* device) : plan_(*plan), device_(*device) {}
  absl::StatusOr<StepReport> Run(Stages* stages, HeldStages* holder, Timing timing);

  const Plan& plan_;
  Device& device_;
  DeviceSpan arena_;
  PinnedSpan pool_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_EXECUTOR_H_

// Runs the steps of a training process by a plan: enqueues its commands on a device in program
// order, and blocks only at the end of the step. An ArenaPlan runs ArenaStages, a FrameworkPlan
// runs FrameworkStages; other combinations do not compile.
#ifndef STOWAGE_CLIENT_AGENT_EXECUTOR_H_
#define STOWAGE_CLIENT_AGENT_EXECUTOR_H_

#include <cstdint>
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
  double seconds = 0;                  // from the start of the first command to the end of the last
  std::vector<CommandTimes> commands;  // by command; empty without Timing::kEveryCommand
};

// A step of which every command was measured. Both vectors are by command; a negative peak was not
// measured.
struct MeasuredStep {
  std::vector<CommandTimes> times;
  std::vector<int64_t> peaks;  // the most bytes of activations while the command ran
};

// kEveryCommand records two events for each command, which slows the step down a little.
enum class Timing { kStepOnly, kEveryCommand };

// Both executors borrow plan and device, and hold the memory of their plan from Create() on: a step
// allocates nothing. Create() fails with RESOURCE_EXHAUSTED from the device.
//
// Step() runs one forward and backward of the whole chain and blocks until both are done. Its error
// is the first of a stage or the device and names the operation, as in
//   "operations[12] BACKWARD 4: out of memory".
// After an error the device is idle and another step may be run. Not thread-safe.

// Executes an ArenaPlan.
class ArenaExecutor {
 public:
  static absl::StatusOr<std::unique_ptr<ArenaExecutor>> Create(const ArenaPlan* plan,
                                                               Device* device);
  ~ArenaExecutor();
  ArenaExecutor(const ArenaExecutor&) = delete;
  ArenaExecutor& operator=(const ArenaExecutor&) = delete;

  // Copies are Device::Copy() between arena and pool.
  absl::StatusOr<StepReport> Step(ArenaStages* stages, Timing timing = Timing::kStepOnly);

 private:
  ArenaExecutor(const ArenaPlan* plan, Device* device) : plan_(*plan), device_(*device) {}

  const ArenaPlan& plan_;
  Device& device_;
  DeviceSpan arena_;  // of plan_.device.layout.bytes
  PinnedSpan pool_;   // of plan_.host.layout.bytes
};

// Executes a FrameworkPlan; allocates only the pool.
class FrameworkExecutor {
 public:
  static absl::StatusOr<std::unique_ptr<FrameworkExecutor>> Create(const FrameworkPlan* plan,
                                                                   Device* device);
  ~FrameworkExecutor();
  FrameworkExecutor(const FrameworkExecutor&) = delete;
  FrameworkExecutor& operator=(const FrameworkExecutor&) = delete;

  // Copies and releases are calls of the stages. After an error the stages are abandoned.
  absl::StatusOr<StepReport> Step(FrameworkStages* stages, Timing timing = Timing::kStepOnly);

 private:
  FrameworkExecutor(const FrameworkPlan* plan, Device* device) : plan_(*plan), device_(*device) {}

  const FrameworkPlan& plan_;
  Device& device_;
  PinnedSpan pool_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_EXECUTOR_H_

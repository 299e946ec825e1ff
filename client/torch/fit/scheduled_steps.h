// Steps of a network under one schedule.
#ifndef STOWAGE_CLIENT_TORCH_FIT_SCHEDULED_STEPS_H_
#define STOWAGE_CLIENT_TORCH_FIT_SCHEDULED_STEPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// What a step computed, and how long it took on the device's queue.
struct StepResult {
  at::Tensor loss;
  double seconds = 0;
};

// Keeps nothing of what the caller passes between steps. Not thread-safe.
class ScheduledSteps {
 public:
  // `stages` are numbered like the plan's execution. Borrows device and meter. Errors: those of
  // FrameworkExecutor::Create().
  static absl::StatusOr<std::unique_ptr<ScheduledSteps>> Create(FrameworkPlan plan,
                                                                TorchStages stages, Device* device,
                                                                MemoryMeter* meter);

  const FrameworkPlan& plan() const { return plan_; }
  const TorchStages& stages() const { return stages_; }

  // Errors of all: those of FrameworkExecutor::Step().
  absl::StatusOr<StepResult> Step(const TorchInput& input, const TorchLoss& loss);
  absl::StatusOr<MeasuredStep> Timed(const TorchInput& input, const TorchLoss& loss);
  // The most bytes that a step has at once, however fast its copies are, the input included; also
  // one that is verified, where such a step is due. Gradients, buffers and random generators are
  // restored.
  absl::StatusOr<int64_t> PeakBytes(const TorchInput& input, const TorchLoss& loss);

  // Compares the recomputations of so many further steps with the first runs.
  void VerifyNext(int steps) { unverified_steps_ = steps; }

 private:
  ScheduledSteps(FrameworkPlan plan, TorchStages stages, MemoryMeter* meter)
      : plan_(std::move(plan)), stages_(std::move(stages)), meter_(*meter) {}

  FrameworkPlan plan_;  // constant but for PeakBytes()
  TorchStages stages_;
  MemoryMeter& meter_;
  std::unique_ptr<FrameworkExecutor> executor_;
  int unverified_steps_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_SCHEDULED_STEPS_H_

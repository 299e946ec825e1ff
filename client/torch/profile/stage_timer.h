// Measures the forwards and backwards of single stages.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_STAGE_TIMER_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_STAGE_TIMER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/agent/executor.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/profile/step_times.h"
#include "client/torch/stages/stage_probe.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// Each call runs on the device's compute queue and waits for it. Errors: those of `stages` and the
// device. May throw LibTorch's exceptions.
class StageTimer {
 public:
  // Borrows all. Requires: `stages` have been fed.
  StageTimer(TorchStages* stages, Device* device, MemoryMeter* meter)
      : stages_(*stages), probe_(stages), device_(*device), meter_(*meter) {}

  absl::Status Begin();
  absl::Status Forward(const ForwardCall& call);
  // Of stage l, whose output gets ones as its gradients.
  absl::Status Backward(int l);

  // Of the last call: the most bytes at once beyond those live before.
  int64_t new_bytes() const { return meter_.PeakBytes() - before_bytes_; }
  const OperationTimes& last_forward() const { return last_forward_; }
  const OperationTimes& last_backward() const { return last_backward_; }

 private:
  // `last`: the times of the last such work, replaced by its own. A GPU is kept busy before for as
  // long as the host took then, so that the GPU's time and the host's are measured apart.
  absl::Status Time(DeviceWork work, OperationTimes* last);

  TorchStages& stages_;
  StageProbe probe_;
  Device& device_;
  MemoryMeter& meter_;
  int64_t before_bytes_ = 0;
  OperationTimes last_forward_;
  OperationTimes last_backward_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_STAGE_TIMER_H_

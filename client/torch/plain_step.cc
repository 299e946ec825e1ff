#include "client/torch/plain_step.h"

#include <ATen/ATen.h>

#include <utility>

#include "client/torch/state_backup.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {

at::Tensor PlainStep(const std::vector<TorchStage>& stages, at::Tensor input,
                     const TorchLoss& loss) {
  at::Tensor value = std::move(input);
  for (const TorchStage& stage : stages) value = stage.forward(value);
  const at::Tensor result = loss(value);
  // Only autograd's graph keeps activations during the backward.
  value.reset();
  result.backward();
  return result.detach();
}

absl::StatusOr<int64_t> PlainPeakBytes(const TorchStages& stages, const at::Tensor& input,
                                       const TorchLoss& loss, MemoryMeter* meter) {
  int64_t peak_bytes = 0;
  RETURN_IF_ERROR(TorchGuarded([&] {
    StateBackup backup(stages);
    backup.SetGradientsToZero();
    const absl::Status ran = TorchGuarded([&] {
      // The first step allocates what libraries keep.
      for (int step = 0; step < 2; ++step) {
        const int64_t before_bytes = meter->LiveBytes();
        meter->ResetPeak();
        PlainStep(stages.stages(), input.clone(), loss);
        peak_bytes = meter->PeakBytes() - before_bytes;
      }
      return absl::OkStatus();
    });
    backup.Restore();
    return ran;
  }));
  return peak_bytes;
}

}  // namespace stowage

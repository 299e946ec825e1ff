#include "client/torch/profile/plain_step.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <functional>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/profile/state_backup.h"
#include "client/torch/stages/stage_borders.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Converts exceptions, and puts the stage's name before them.
absl::Status Named(const std::string& stage, const std::function<void()>& call) {
  const absl::Status status = TorchGuarded([&call] {
    call();
    return absl::OkStatus();
  });
  return status.ok() ? status : Prefixed(stage, status);
}

}  // namespace

absl::StatusOr<at::Tensor> PlainStep(const std::vector<TorchStage>& stages, TorchInput input,
                                     const TorchLoss& loss) {
  // Casts of weights that autocast has cached are from before the optimizer's step.
  at::autocast::clear_cache();
  const auto forget_casts = absl::MakeCleanup([] { at::autocast::clear_cache(); });
  const StageBorders borders(stages);
  Tensors value = {std::move(input.tensor)};
  int l = 0;
  for (const TorchStage& stage : stages) {
    ++l;
    RETURN_IF_ERROR(Named(stage.name, [&] { value = borders.Run(stage, l, value, input.sides); }));
  }
  at::Tensor result;
  RETURN_IF_ERROR(Named("loss", [&] {
    TORCH_CHECK_WITH(ValueError, value.size() == 1, "takes one tensor, not ", value.size());
    result = loss(value.front());
  }));
  // Only autograd's graph keeps activations during the backward.
  value.clear();
  RETURN_IF_ERROR(Named("backward", [&] {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    result.backward();
  }));
  return result.detach();
}

absl::StatusOr<int64_t> StepPeakBytes(const TorchStages& stages, const at::Tensor& input,
                                      MemoryMeter* meter, absl::FunctionRef<absl::Status()> step) {
  int64_t peak_bytes = 0;
  std::optional<StateBackup> backup;
  absl::Status ran = TorchGuarded([&] {
    backup.emplace(stages);
    backup->SetGradientsToZero();
    absl::Status status;
    // The first step allocates what libraries keep.
    for (int run = 0; run < 2 && status.ok(); ++run) {
      const int64_t before_bytes = meter->LiveBytes();
      meter->ResetPeak();
      status = step();
      peak_bytes = meter->PeakBytes() - before_bytes;
    }
    return status;
  });
  if (backup.has_value()) {
    ran.Update(TorchGuarded([&] {
      backup->Restore();
      return absl::OkStatus();
    }));
  }
  RETURN_IF_ERROR(ran);
  return peak_bytes + StridedBytes(input);
}

absl::StatusOr<int64_t> PlainPeakBytes(const std::vector<TorchStage>& stages,
                                       const TorchInput& input, const TorchLoss& loss,
                                       MemoryMeter* meter) {
  return StepPeakBytes(TorchStages(stages, {.device = input.tensor.device()}), input.tensor, meter,
                       [&] { return PlainStep(stages, input, loss).status(); });
}

}  // namespace stowage

// Training without a schedule: what LibTorch does by itself.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_PLAIN_STEP_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_PLAIN_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// One forward and backward, the latter without autocast, as under a schedule; adds to the
// gradients. Returns the loss, detached. Errors begin with the stage's name: RESOURCE_EXHAUSTED,
// INVALID_ARGUMENT for tensors that do not suit its declarations, or INTERNAL for LibTorch's other
// exceptions.
absl::StatusOr<at::Tensor> PlainStep(const std::vector<TorchStage>& stages, TorchInput input,
                                     const TorchLoss& loss);

// The tensor's bytes; 0 for sparse ones, of which LibTorch does not tell.
inline int64_t StridedBytes(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

// The most bytes that `step`, which runs those stages, has at once beyond what is live before it,
// and those of its input, which the caller has meanwhile. Runs it twice; gradients, buffers and
// random generators are restored. Errors: the step's.
absl::StatusOr<int64_t> StepPeakBytes(const TorchStages& stages, const at::Tensor& input,
                                      MemoryMeter* meter, absl::FunctionRef<absl::Status()> step);

// The most bytes that a plain step has at once, the input included, as schedules are measured.
// Gradients, buffers and random generators are restored. Errors: those of PlainStep().
absl::StatusOr<int64_t> PlainPeakBytes(const std::vector<TorchStage>& stages,
                                       const TorchInput& input, const TorchLoss& loss,
                                       MemoryMeter* meter);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_PLAIN_STEP_H_

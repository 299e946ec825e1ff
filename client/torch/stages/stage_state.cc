#include "client/torch/stages/stage_state.h"

#include <algorithm>

namespace stowage {

void StageState::Drop() {
  value = HeldValue();
  if (!kept.has_value()) return;
  kept.reset();
  recorded.reset();
}

void StageState::SetOutput(const StageOutput& output) {
  Drop();
  recorded.reset();  // it keeps what its last replay has saved
  value.HoldOutput(output);
}

void StageState::EndStep() {
  value = HeldValue();
  recorded.reset();
  kept.reset();
  gradients.reset();
  first_output.Forget();
  replay.EndStep();
}

std::vector<GradientPart> GradientPartsOf(const Tensors& inputs, const Tensors& outputs,
                                          int64_t granularity) {
  std::vector<GradientPart> parts(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    HeldValue held;
    held.Hold(inputs[i]);
    parts[i] = {held.Bytes(granularity), StorageOf(inputs[i])};
    const auto same = std::find_if(outputs.begin(), outputs.end(), [&](const at::Tensor& output) {
      return output.defined() && StorageOf(output) == parts[i].storage;
    });
    if (same != outputs.end()) parts[i].passed = static_cast<size_t>(same - outputs.begin());
  }
  return parts;
}

}  // namespace stowage

#include "client/torch/stages/stage_probe.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/stages/stage_forward.h"

namespace stowage {

int64_t StageProbe::ValueBytes(int l) const {
  return state(l).value.Bytes(stages_.options().granularity);
}

// A gradient may be a view of a larger tensor, so its storage counts.
int64_t StageProbe::GradientBytes(int l) const {
  HeldValue held;
  for (const at::Tensor& gradient : state(l).gradients.value_or(Tensors())) {
    if (gradient.defined()) held.Hold(gradient);
  }
  return held.Bytes(stages_.options().granularity);
}

void StageProbe::SetGradients(int l, Tensors gradients) {
  state(l).gradients = std::move(gradients);
}

bool StageProbe::NeedsInput(int l) const {
  const HeldValue& value = state(l).value;
  return value.reads_input || !HoldsSavedTensorsOnly(value.graph, stages_.constants_);
}

std::string StageProbe::WorkOf(int l) const {
  std::string work = state(l).value.graph.Work();
  if (!work.empty()) absl::StrAppend(&work, "; ", ValueBytes(l - 1), " to ", ValueBytes(l));
  return work;
}

}  // namespace stowage

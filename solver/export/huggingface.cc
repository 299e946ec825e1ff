// Hugging Face transformers: gradient checkpointing of single layers.
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfTransformers = R"(from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

)";

constexpr absl::string_view kFunction = R"(

def checkpoint_layers(model: PreTrainedModel) -> None:
    """Has the layers of the plan run again in the backward; call it before training.

    Leave gradient_checkpointing and activation_checkpointing of TrainingArguments off: with
    either, the Trainer has every layer run again.
    """
    layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    if len(layers) != LAYERS:
        raise ValueError(f"the plan is for {LAYERS} layers, the model has {len(layers)}")
    model.activation_checkpointing_enable({"use_reentrant": False})
    for index, layer in enumerate(layers):
        layer.gradient_checkpointing = index in RECOMPUTED
)";

}  // namespace

absl::StatusOr<std::string> WriteHuggingFace(const ExportedPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<int> layers, RecomputedLayers(plan, "transformers"));
  return absl::StrCat(HashComments(plan.remarks), kImportsOfTransformers,
                      "LAYERS = ", plan.layers->count(),
                      "\n# Layers that run again in the backward, counted from 0 as in "
                      "model.layers.0.\nRECOMPUTED = frozenset([\n",
                      NumberLines(layers), "])\n", kFunction);
}

}  // namespace stowage

// Hugging Face transformers: gradient checkpointing of single layers.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "solver/base/status_macros.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"
#include "solver/export/torch_ways.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfTransformers = R"(from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

)";

// $0 is of layers that are saved in part.
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
$0)";

constexpr absl::string_view kLayerInPart = R"(        if index in IN_PART:
            layer.gradient_checkpointing = True
            layer._gradient_checkpointing_func = partial(
                checkpoint, use_reentrant=False, context_fn=partial(keep, IN_PART[index])
            )
)";

std::string TransformersImports(bool in_part) {
  if (!in_part) return std::string(kImportsOfTransformers);
  return absl::StrCat(kImportsOfKeep, "from functools import partial, reduce\n\nimport torch\n",
                      kImportsOfModes, "from torch.utils.checkpoint import checkpoint\n",
                      kImportsOfTransformers);
}

}  // namespace

absl::StatusOr<std::string> WriteHuggingFace(const ExportedPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<int> layers, RecomputedLayers(plan, "transformers"));
  const bool in_part = SavesInPart(plan);
  return absl::StrCat(
      HashComments(plan.remarks), TransformersImports(in_part), "LAYERS = ", plan.layers->count(),
      "\n# Layers that run again in the backward, counted from 0 as in "
      "model.layers.0.\nRECOMPUTED = frozenset([\n",
      NumberLines(layers), "])\n", in_part ? absl::StrCat(WayTables(plan, "Layers", 0), kKeep) : "",
      absl::Substitute(kFunction, in_part ? kLayerInPart : ""));
}

}  // namespace stowage

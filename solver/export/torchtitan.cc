// torchtitan: a policy of activation checkpointing for its trainer.
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfTorchtitan = R"(from dataclasses import dataclass

import torch
from torchtitan.distributed.activation_checkpoint import FullAC

)";

constexpr absl::string_view kPolicy = R"(

class PlannedAC(FullAC):
    """The plan: Trainer.Config(activation_checkpoint=PlannedAC.Config())."""

    @dataclass(kw_only=True, slots=True)
    class Config(FullAC.Config):
        pass

    def apply(self, model: torch.nn.Module) -> None:
        names = [name for name, _ in model.get_submodule("layers").named_children()]
        layers = len(names)
        if layers != LAYERS:
            raise ValueError(f"the plan is for {LAYERS} layers, the model has {layers}")
        # Layers of a later pipeline stage keep their names in the whole model.
        self.recomputed = {f"layers.{names[index]}" for index in RECOMPUTED}
        super().apply(model)

    def _wrap_block(
        self, module: torch.nn.Module, *, base_fqn: str | None = None
    ) -> torch.nn.Module:
        if base_fqn not in self.recomputed:
            return module
        return super()._wrap_block(module, base_fqn=base_fqn)
)";

}  // namespace

absl::StatusOr<std::string> WriteTorchTitan(const ExportedPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<int> layers, RecomputedLayers(plan, "torchtitan"));
  return absl::StrCat(
      HashComments(plan.remarks), kImportsOfTorchtitan, "LAYERS = ", plan.layers->count(),
      "\n# Layers that run again in the backward, counted from 0 at the first one of the\n"
      "# pipeline stage, or of the model.\nRECOMPUTED = frozenset([\n",
      NumberLines(layers), "])\n", kPolicy);
}

}  // namespace stowage

// torchtitan: a policy of activation checkpointing for its trainer.
#include "absl/strings/str_cat.h"
#include "client/export/targets.h"
#include "client/export/text.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr absl::string_view kImports = R"(from dataclasses import dataclass

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
        layers = len(model.get_submodule("layers"))
        if layers != LAYERS:
            raise ValueError(f"the plan is for {LAYERS} layers, the model has {layers}")
        super().apply(model)

    def _wrap_block(
        self, module: torch.nn.Module, *, base_fqn: str | None = None
    ) -> torch.nn.Module:
        index = int((base_fqn or "").rpartition(".")[2])
        if index not in RECOMPUTED:
            return module
        return super()._wrap_block(module, base_fqn=base_fqn)
)";

}  // namespace

absl::StatusOr<std::string> WriteTorchTitan(const ExportedPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<int> layers, RecomputedLayers(plan, "torchtitan"));
  return absl::StrCat(HashComments(plan.remarks), kImports, "LAYERS = ", plan.layers->count(),
                      "\n# Layers that run again in the backward, counted from 0 as in layers.0.\n"
                      "RECOMPUTED = frozenset([\n",
                      NumberLines(layers), "])\n", kPolicy);
}

}  // namespace stowage

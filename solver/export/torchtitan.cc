// torchtitan: a policy of activation checkpointing for its trainer.
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

constexpr absl::string_view kFullAC =
    R"(from torchtitan.distributed.activation_checkpoint import FullAC

)";

// $0 wraps a layer.
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
$1        super().apply(model)

    def _wrap_block(
        self, module: torch.nn.Module, *, base_fqn: str | None = None
    ) -> torch.nn.Module:
$0        if base_fqn not in self.recomputed:
            return module
        return super()._wrap_block(module, base_fqn=base_fqn)
)";

constexpr absl::string_view kWrapInPart = R"(        way = self.in_part.get(base_fqn)
        if way is not None:
            return checkpoint_wrapper(
                module,
                context_fn=partial(keep, way),
                preserve_rng_state=self.config.preserve_rng_state,
                determinism_check=self.config.determinism_check,
                debug=self.config.debug,
            )
)";

constexpr absl::string_view kSetInPart =
    R"(        self.in_part = {f"layers.{names[index]}": way for index, way in IN_PART.items()}
)";

constexpr absl::string_view kWrapper =
    R"(from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
)";

std::string TorchtitanImports(bool in_part) {
  if (!in_part) {
    return absl::StrCat("from dataclasses import dataclass\n\nimport torch\n", kFullAC);
  }
  return absl::StrCat(kImportsOfKeep,
                      "from dataclasses import dataclass\nfrom functools import partial, reduce\n\n"
                      "import torch\n",
                      kWrapper, kImportsOfModes, kFullAC);
}

}  // namespace

absl::StatusOr<std::string> WriteTorchTitan(const ExportedPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<int> layers, RecomputedLayers(plan, "torchtitan"));
  const bool in_part = SavesInPart(plan);
  return absl::StrCat(
      HashComments(plan.remarks), TorchtitanImports(in_part), "LAYERS = ", plan.layers->count(),
      "\n# Layers that run again in the backward, counted from 0 at the first one of the\n"
      "# pipeline stage, or of the model.\nRECOMPUTED = frozenset([\n",
      NumberLines(layers), "])\n", in_part ? absl::StrCat(WayTables(plan, "Layers", 0), kKeep) : "",
      in_part ? absl::Substitute(kPolicy, kWrapInPart, kSetInPart)
              : absl::Substitute(kPolicy, "", ""));
}

}  // namespace stowage

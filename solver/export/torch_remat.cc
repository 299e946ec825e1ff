// torch_remat: layers that run again but for modules that are saved.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfRemat = R"(from collections.abc import Callable, Sequence

import torch
import torch_remat

)";

constexpr absl::string_view kRematFunctions = R"(

class Generators:
    """Has what runs again draw the random numbers of the first run."""

    def snapshot(self) -> list[torch.Tensor]:
        return [device.get_rng_state() for device in self.devices()]

    def restore(self, states: list[torch.Tensor]) -> None:
        for device, state in zip(self.devices(), states):
            device.set_rng_state(state)

    def devices(self) -> list:
        return [torch, torch.cuda] if torch.cuda.is_initialized() else [torch]


def saved(forward: Callable, name: str) -> Callable:
    """A module's forward that does not run again. What runs again may read its result."""
    region = torch_remat.region(forward, name, recompute=False)

    def run(*args, **kwargs):
        result = region(*args, **kwargs)
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, torch.Tensor):
                torch_remat.recompute_needs_tensor(part)
        return result

    return run


def without_caches(forward: Callable) -> Callable:
    def run(*args, **kwargs):
        if any(kwargs.get(name) is not None for name in ("cache", "past_key_values")):
            raise ValueError("a layer that runs again fills a cache twice: pass use_cache=False")
        return forward(*args, **kwargs)

    return run


def checkpoint_layers(layers: Sequence[torch.nn.Module]) -> None:
    """Has the layers follow the plan: call it once, as on model.model.layers."""
    if len(layers) != LAYERS:
        raise ValueError(f"the plan is for {LAYERS} layers, not {len(layers)}")
    for index, names in SAVED.items():
        layer = layers[index]
        for name in names:
            module = layer.get_submodule(name)
            module.forward = saved(module.forward, name)
        checkpointed = torch_remat.checkpoint(
            region_name=f"layers.{index}", recompute_state_hooks=(Generators(),)
        )
        layer.forward = without_caches(checkpointed(layer.forward))
)";

}  // namespace

absl::StatusOr<std::string> WriteTorchRemat(const ExportedPlan& plan) {
  std::string lines;
  for (const Piece& piece : plan.pieces) {
    if (!piece.recomputed && piece.save_option == 0) continue;
    if (piece.recomputed && piece.first != piece.last) {
      return SeveralLayersError("torch-remat", piece);
    }
    for (int layer = piece.first; layer <= piece.last; ++layer) {
      absl::StrAppend(&lines, "    ", layer - 1, ": ", NamesText(plan, layer, piece), ",  # ",
                      plan.layers->name(layer), "\n");
    }
  }
  return absl::StrCat(
      HashComments(plan.remarks), kImportsOfRemat, "LAYERS = ", plan.layers->count(),
      "\n# Layers that run again in the backward, counted from 0, and their modules "
      "that do not.\n# Other layers are saved.\nSAVED = {\n",
      lines, "}\n", kRematFunctions);
}

}  // namespace stowage

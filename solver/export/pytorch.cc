// PyTorch eager: a module of Python with torch.utils.checkpoint around segments, and around stages
// that are saved in part.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"
#include "solver/export/torch_ways.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfTorch = R"(from collections.abc import Callable, Sequence

import torch
from torch.utils.checkpoint import checkpoint
)";

constexpr absl::string_view kStage = R"(
Stage = Callable[[torch.Tensor], torch.Tensor]

)";

constexpr absl::string_view kBatchNorm =
    R"(# BatchNorm in a segment moves its running statistics twice a step; a momentum of
# 1 - sqrt(1 - m) moves them as m does once.
)";

constexpr absl::string_view kRunTorch = R"(

def run(stages: Sequence[Stage], value: torch.Tensor) -> torch.Tensor:
    """The stages, one after another."""
    for stage in stages:
        value = stage(value)
    return value
)";

constexpr absl::string_view kSaveTorch = R"(

def save(stages: Sequence[Stage], first: int, value: torch.Tensor) -> torch.Tensor:
    """The stages from this number on, saved whole or in part."""
    for number, stage in enumerate(stages, first):
        way = IN_PART.get(number)
        if way is None:
            value = stage(value)
        else:
            value = checkpoint(stage, value, use_reentrant=False, context_fn=partial(keep, way))
    return value
)";

// $0 and $1 run stages that are saved.
constexpr absl::string_view kForwardTorch = R"(

def forward(stages: Sequence[Stage], value: torch.Tensor) -> torch.Tensor:
    """What run() returns, in less memory."""
    if len(stages) != STAGES:
        raise ValueError(f"the plan is for {STAGES} stages, not {len(stages)}")
    done = 0
    for first, last in SEGMENTS:
        value = $0
        value = checkpoint(run, stages[first - 1 : last], value, use_reentrant=False)
        done = last
    return $1


class Checkpointed(torch.nn.Sequential):
    """A torch.nn.Sequential of the stages that follows the plan."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return forward(list(self), value)
)";

std::string TorchImports(bool in_part) {
  if (!in_part) return absl::StrCat(kImportsOfTorch, kStage);
  return absl::StrCat(kImportsOfKeep,
                      "from collections.abc import Callable, Sequence\n"
                      "from functools import partial, reduce\n\nimport torch\n",
                      kImportsOfModes, "from torch.utils.checkpoint import checkpoint\n", kStage);
}

std::string TorchFunctions(bool in_part) {
  if (!in_part) {
    return absl::StrCat(kRunTorch,
                        absl::Substitute(kForwardTorch, "run(stages[done : first - 1], value)",
                                         "run(stages[done:], value)"));
  }
  return absl::StrCat(
      kKeep, kRunTorch, kSaveTorch,
      absl::Substitute(kForwardTorch, "save(stages[done : first - 1], done + 1, value)",
                       "save(stages[done:], done + 1, value)"));
}

}  // namespace

absl::StatusOr<std::string> WritePyTorch(const ExportedPlan& plan) {
  const bool in_part = SavesInPart(plan);
  return absl::StrCat(HashComments(plan.remarks), TorchImports(in_part),
                      "STAGES = ", plan.layers->count(),
                      "\n# Segments that run again in the backward: their first and last stage, "
                      "counted from 1.\n# Other stages are saved.\n",
                      kBatchNorm, "SEGMENTS = [\n", SegmentLines(plan), "]\n",
                      in_part ? WayTables(plan, "Stages", 1) : "", TorchFunctions(in_part));
}

}  // namespace stowage

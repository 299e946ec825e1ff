// PyTorch eager: a module of Python with torch.utils.checkpoint around segments.
#include "absl/strings/str_cat.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfTorch = R"(from collections.abc import Callable, Sequence

import torch
from torch.utils.checkpoint import checkpoint

Stage = Callable[[torch.Tensor], torch.Tensor]

)";

constexpr absl::string_view kBatchNorm =
    R"(# BatchNorm in a segment moves its running statistics twice a step; a momentum of
# 1 - sqrt(1 - m) moves them as m does once.
)";

constexpr absl::string_view kFunctions = R"(

def run(stages: Sequence[Stage], value: torch.Tensor) -> torch.Tensor:
    """The stages, one after another."""
    for stage in stages:
        value = stage(value)
    return value


def forward(stages: Sequence[Stage], value: torch.Tensor) -> torch.Tensor:
    """What run() returns, in less memory."""
    if len(stages) != STAGES:
        raise ValueError(f"the plan is for {STAGES} stages, not {len(stages)}")
    done = 0
    for first, last in SEGMENTS:
        value = run(stages[done : first - 1], value)
        value = checkpoint(run, stages[first - 1 : last], value, use_reentrant=False)
        done = last
    return run(stages[done:], value)


class Checkpointed(torch.nn.Sequential):
    """A torch.nn.Sequential of the stages that follows the plan."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return forward(list(self), value)
)";

}  // namespace

absl::StatusOr<std::string> WritePyTorch(const ExportedPlan& plan) {
  return absl::StrCat(HashComments(plan.remarks), kImportsOfTorch,
                      "STAGES = ", plan.layers->count(),
                      "\n# Segments that run again in the backward: their first and last stage, "
                      "counted from 1.\n# Other stages are saved.\n",
                      kBatchNorm, "SEGMENTS = [\n", SegmentLines(plan), "]\n", kFunctions);
}

}  // namespace stowage

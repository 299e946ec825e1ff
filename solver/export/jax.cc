// JAX: a module of Python with jax.checkpoint around segments.
#include "absl/strings/str_cat.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImports = R"(from collections.abc import Callable, Sequence

import jax
from jax.ad_checkpoint import checkpoint_name

Stage = Callable[[jax.Array], jax.Array]

)";

// The input of a segment is named within the segment, so that the policy decides about it.
constexpr absl::string_view kFunctions = R"(
POLICY = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[f"before_{first}" for first, _ in SEGMENTS],
    names_which_can_be_offloaded=[],
    offload_src="device",
    offload_dst="pinned_host",
)


def run(stages: Sequence[Stage], value: jax.Array) -> jax.Array:
    """The stages, one after another."""
    for stage in stages:
        value = stage(value)
    return value


def forward(stages: Sequence[Stage], value: jax.Array) -> jax.Array:
    """What run() returns; its derivative takes less memory."""
    if len(stages) != STAGES:
        raise ValueError(f"the plan is for {STAGES} stages, not {len(stages)}")
    done = 0
    for first, last in SEGMENTS:
        value = run(stages[done : first - 1], value)

        def segment(value: jax.Array, first: int = first, last: int = last) -> jax.Array:
            return run(stages[first - 1 : last], checkpoint_name(value, f"before_{first}"))

        value = jax.checkpoint(segment, policy=POLICY)(value)
        done = last
    return run(stages[done:], value)
)";

}  // namespace

absl::StatusOr<std::string> WriteJax(const ExportedPlan& plan) {
  return absl::StrCat(
      HashComments(plan.remarks), kImports, "STAGES = ", plan.layers->count(),
      "\n# Segments that run again in the backward: their first and last stage, "
      "counted from 1.\n# Other stages are saved, and of a segment its input, under "
      "the name before_FIRST.\nSEGMENTS = [\n",
      SegmentLines(plan), "]\n", kFunctions);
}

}  // namespace stowage

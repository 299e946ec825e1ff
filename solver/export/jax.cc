// JAX: a module of Python with jax.checkpoint around segments, and around stages that keep names.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {
namespace {

constexpr absl::string_view kImportsOfJax = R"(from collections.abc import Callable, Sequence

import jax
from jax.ad_checkpoint import checkpoint_name

Stage = Callable[[jax.Array], jax.Array]

)";

// The input of a segment is named within the segment, so that the policy decides about it.
constexpr absl::string_view kPolicy = R"(
POLICY = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[f"before_{first}" for first, _ in SEGMENTS],
    names_which_can_be_offloaded=[],
    offload_src="device",
    offload_dst="pinned_host",
)
)";

constexpr absl::string_view kRun = R"(

def run(stages: Sequence[Stage], value: jax.Array) -> jax.Array:
    """The stages, one after another."""
    for stage in stages:
        value = stage(value)
    return value
)";

constexpr absl::string_view kSave = R"(

def save(stages: Sequence[Stage], first: int, value: jax.Array) -> jax.Array:
    """The stages from this number on, saved whole or in part."""
    for number, stage in enumerate(stages, first):
        if number in KEPT:
            names = jax.checkpoint_policies.save_only_these_names(*KEPT[number])
            stage = jax.checkpoint(stage, policy=names)
        value = stage(value)
    return value
)";

// Either forward() begins like this.
constexpr absl::string_view kBegin = R"(

def forward(stages: Sequence[Stage], value: jax.Array) -> jax.Array:
    """What run() returns; its derivative takes less memory."""
    if len(stages) != STAGES:
        raise ValueError(f"the plan is for {STAGES} stages, not {len(stages)}")
)";

// $0 and $1 run stages that are saved.
constexpr absl::string_view kForward = R"(    done = 0
    for first, last in SEGMENTS:
        value = $0

        def segment(value: jax.Array, first: int = first, last: int = last) -> jax.Array:
            return run(stages[first - 1 : last], checkpoint_name(value, f"before_{first}"))

        value = jax.checkpoint(segment, policy=POLICY)(value)
        done = last
    return $1
)";

constexpr absl::string_view kImportsOfHost = R"(from collections.abc import Callable, Sequence

import jax
from jax.ad_checkpoint import Offloadable, checkpoint_name

Stage = Callable[[jax.Array], jax.Array]

)";

constexpr absl::string_view kPieces =
    R"(# First and last stage, counted from 1; whether they run again in the backward, else they are
# saved; whether what they leave for the backward is on the host: what a saved stage saves, and
# in either case the output, which is the input of the next piece.
PIECES = [
)";

// A piece's input is named within it, as above.
constexpr absl::string_view kPolicyOfHost = R"(
HOST = Offloadable(src="device", dst="pinned_host")


def policy_of(first: int, again: bool, host: bool, input_on_host: bool) -> Callable:
    """Where the backward of a piece finds its input and what its stages save."""
    before = f"before_{first}"
    if again:
        return jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[] if input_on_host else [before],
            names_which_can_be_offloaded=[before] if input_on_host else [],
            offload_src="device",
            offload_dst="pinned_host",
        )

    def policy(_: object, *values: object, **parameters: object) -> bool | Offloadable:
        is_input = parameters.get("name") == before
        return HOST if (input_on_host if is_input else host) else True

    return policy
)";

constexpr absl::string_view kForwardOfHost = R"(    input_on_host = False
    for first, last, again, host in PIECES:

        def piece(value: jax.Array, first: int = first, last: int = last) -> jax.Array:
            return run(stages[first - 1 : last], checkpoint_name(value, f"before_{first}"))

        if again or host or input_on_host:
            piece = jax.checkpoint(piece, policy=policy_of(first, again, host, input_on_host))
        value = piece(value)
        input_on_host = host
    return value
)";

std::string PieceLine(const ExportedPlan& plan, int first, int last, bool recomputed) {
  const bool host = plan.offloaded[static_cast<size_t>(last) - 1];
  std::string name = plan.layers->name(first);
  if (first != last) absl::StrAppend(&name, " to ", plan.layers->name(last));
  return absl::StrCat("    (", first, ", ", last, ", ", recomputed ? "True" : "False", ", ",
                      host ? "True" : "False", "),  # ", name, "\n");
}

std::string PieceLines(const ExportedPlan& plan) {
  std::string lines;
  for (const Piece& piece : plan.pieces) {
    if (piece.recomputed) {
      absl::StrAppend(&lines, PieceLine(plan, piece.first, piece.last, true));
      continue;
    }
    for (int l = piece.first; l <= piece.last; ++l) {
      absl::StrAppend(&lines, PieceLine(plan, l, l, false));
    }
  }
  return lines;
}

// Of the stages that are saved in part.
std::string KeptTable(const ExportedPlan& plan) {
  std::string lines;
  for (const Piece& piece : plan.pieces) {
    for (int l = piece.first; piece.save_option != 0 && l <= piece.last; ++l) {
      absl::StrAppend(&lines, "    ", l, ": ", NamesText(plan, l, piece), ",  # ",
                      plan.layers->name(l), "\n");
    }
  }
  return absl::StrCat(
      "# Stages that are saved in part, counted from 1, and the names of what they "
      "keep.\nKEPT = {\n",
      lines, "}\n");
}

}  // namespace

absl::StatusOr<std::string> WriteJax(const ExportedPlan& plan) {
  if (!plan.offloaded.empty()) {  // such a plan saves no stage in part
    return absl::StrCat(HashComments(plan.remarks), kImportsOfHost,
                        "STAGES = ", plan.layers->count(), "\n", kPieces, PieceLines(plan), "]\n",
                        kPolicyOfHost, kRun, kBegin, kForwardOfHost);
  }
  const bool in_part = SavesInPart(plan);
  return absl::StrCat(
      HashComments(plan.remarks), kImportsOfJax, "STAGES = ", plan.layers->count(),
      "\n# Segments that run again in the backward: their first and last stage, "
      "counted from 1.\n# Other stages are saved, and of a segment its input, under "
      "the name before_FIRST.\nSEGMENTS = [\n",
      SegmentLines(plan), "]\n", in_part ? KeptTable(plan) : "", kPolicy, kRun,
      in_part ? kSave : "", kBegin,
      in_part ? absl::Substitute(kForward, "save(stages[done : first - 1], done + 1, value)",
                                 "save(stages[done:], done + 1, value)")
              : absl::Substitute(kForward, "run(stages[done : first - 1], value)",
                                 "run(stages[done:], value)"));
}

}  // namespace stowage

#include "solver/export/torch_policy.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stowage {
namespace {

// "    {\"aten.mm.default\": [0, 2], ...},", an operator a line.
std::string WayLines(const std::vector<std::string>& kept) {
  std::map<std::string, std::vector<int>> calls;
  for (const std::string& name : kept) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(name, '#');
    int call = 0;
    if (absl::SimpleAtoi(parts.second, &call)) calls[parts.first].push_back(call);
  }
  std::string lines = "    {\n";
  for (const auto& [name, numbers] : calls) {
    absl::StrAppend(&lines, "        \"", name, "\": [", absl::StrJoin(numbers, ", "), "],\n");
  }
  return absl::StrCat(lines, "    },\n");
}

}  // namespace

std::string WayTables(const ExportedPlan& plan, absl::string_view unit, int first_number) {
  std::map<std::vector<std::string>, size_t> ways;  // what each keeps, and its number
  std::string layers;
  std::string tables;
  for (const Piece& piece : plan.pieces) {
    for (int layer = piece.first; piece.save_option != 0 && layer <= piece.last; ++layer) {
      const std::vector<std::string> kept = plan.layers->way_names(layer, piece.save_option);
      const auto [way, is_new] = ways.try_emplace(kept, ways.size());
      if (is_new) absl::StrAppend(&tables, WayLines(kept));
      absl::StrAppend(&layers, "    ", layer - 1 + first_number, ": ", way->second, ",  # ",
                      plan.layers->name(layer), "\n");
    }
  }
  return absl::StrCat("# ", unit, " that are saved in part, counted from ", first_number,
                      ", and in which of WAYS, counted from 0.\nIN_PART = {\n", layers,
                      "}\n# Operators, and the numbers of those of their calls in a layer, from 0, "
                      "whose results are kept.\nWAYS = [\n",
                      tables, "]\n");
}

const absl::string_view kImportsOfKeep = R"(from collections import Counter
)";

const absl::string_view kImportsOfPolicy = R"(from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
)";

// A call that is kept draws no numbers in the rerun, so what draws after it would draw others: the
// rerun goes on with the generators' states that the run had there.
const absl::string_view kKeep = R"(

class Keep:
    """Says of each call of an operator whether its result is kept, in a run and its rerun."""

    def __init__(self, way: dict[str, list[int]]) -> None:
        self.kept = {
            (reduce(getattr, name.split("."), torch.ops), call)
            for name, calls in way.items()
            for call in calls
        }
        self.calls = {False: Counter(), True: Counter()}  # of the run, and of the rerun
        self.drew = {False: False, True: False}  # whether the call before was kept, and draws
        self.generators = []

    def __call__(self, context, operator, *args, **kwargs) -> CheckpointPolicy:
        again = context.is_recompute
        if self.drew[again]:
            self.drew[again] = False
            self.go_on_drawing(again)
        cast = operator is torch.ops.aten._to_copy.default
        if cast and isinstance(args[0], torch.nn.Parameter):
            return CheckpointPolicy.PREFER_RECOMPUTE  # autocast casts a weight once
        call = (operator, self.calls[again][operator])
        self.calls[again][operator] += 1
        if call not in self.kept:
            return CheckpointPolicy.PREFER_RECOMPUTE
        draws = torch.Tag.nondeterministic_seeded in operator.tags
        self.drew[again] = draws and not torch.compiler.is_compiling()
        return CheckpointPolicy.MUST_SAVE

    def go_on_drawing(self, again: bool) -> None:
        """After a result that is kept: the rerun goes on with the random numbers of the run."""
        devices = [torch, torch.cuda] if torch.cuda.is_initialized() else [torch]
        if not again:
            self.generators.append([device.get_rng_state() for device in devices])
            return
        for device, state in zip(devices, self.generators.pop(0)):
            device.set_rng_state(state)


def keep(way: int):
    """For context_fn of torch.utils.checkpoint: keeps what the way says, and reruns the rest."""
    # An operator that changes a kept result in place is kept, too.
    return create_selective_checkpoint_contexts(Keep(WAYS[way]), allow_cache_entry_mutation=True)
)";

}  // namespace stowage

#include "solver/export/torch_ways.h"

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

const absl::string_view kImportsOfModes =
    R"(from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
)";

// Not PyTorch's own selective checkpointing: its rerun does not go on with the random numbers of
// the run where it is handed what draws them, and counts casts of weights, which autocast makes in
// some runs and in others not.
const absl::string_view kKeep = R"(

def calls_of(way: dict[str, list[int]]) -> set[tuple]:
    """Operators, each with the number of a call."""
    operators = {name: reduce(getattr, name.split("."), torch.ops) for name in way}
    return {(operators[name], number) for name, numbers in way.items() for number in numbers}


CALLS = [calls_of(way) for way in WAYS]


def keep(way: int) -> tuple:
    """For context_fn of torch.utils.checkpoint: keeps what the way says, and reruns the rest."""
    if get_proxy_mode() is not None:  # torch.compile: its partitioner gets the policy
        calls, numbers = CALLS[way], Numbers()

        def policy(context, operator, *args, **kwargs) -> CheckpointPolicy:
            is_kept = numbers.call_of(operator, args) in calls
            return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)
    run = Run(CALLS[way])
    return run, Rerun(run)


class Numbers:
    """Numbers the calls of each operator that every run of a layer makes."""

    IGNORED = (torch.ops.aten.detach.default, torch.ops.prim.device.default)

    def __init__(self) -> None:
        self.counts = Counter()

    def call_of(self, operator, args) -> tuple | None:
        if operator in self.IGNORED:
            return None
        if operator is torch.ops.aten._to_copy.default:
            # Autocast casts a weight, or another leaf, in one run, and finds it cast in others.
            is_leaf = args[0].is_leaf and args[0].requires_grad
            if is_leaf or isinstance(args[0], torch.nn.Parameter):
                return None
        self.counts[operator] += 1
        return operator, self.counts[operator] - 1


class Run(TorchDispatchMode):
    """Around the first run of a layer: keeps results of calls."""

    def __init__(self, calls: set[tuple]) -> None:
        super().__init__()
        self.calls = calls
        self.numbers = Numbers()
        self.results = {}  # by call
        self.generators = {}  # by call that draws random numbers: how to go on after it
        self.storages = set()  # of the results

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        call = self.numbers.call_of(operator, args)
        is_kept = call in self.calls
        self.check(operator, args, is_kept)
        result = operator(*args, **kwargs)
        if is_kept:
            self.results[call] = tree_map_only(torch.Tensor, torch.Tensor.detach, result)
            self.storages.update(map(storage_of, tensors_in(result)))
            if torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
                self.generators[call] = generators_of((args, kwargs, result))
        return result

    def check(self, operator, args, is_kept: bool) -> None:
        """What changes a kept result in place has to be kept, and nothing else that changes."""
        schema = getattr(operator, "_schema", None)
        if schema is None or not schema.is_mutable:
            return
        for argument, value in zip(schema.arguments, args):
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tensors_in(value) if writes else ():
                if (storage_of(tensor) in self.storages) != is_kept:
                    raise RuntimeError(
                        f"{operator} changes a tensor that the plan "
                        f"{'does not keep' if is_kept else 'keeps'}: it is a plan of other layers"
                    )


class Rerun(TorchDispatchMode):
    """Around the rerun in the backward: hands on what the run has kept."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __enter__(self):
        self.numbers = Numbers()  # a second backward runs the layer again, too
        return super().__enter__()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        call = self.numbers.call_of(operator, args)
        if call not in self.run.calls:
            return operator(*args, **(kwargs or {}))
        if call not in self.run.results:
            raise RuntimeError(
                f"{operator}: the plan keeps its result, which is gone or was never there. A layer "
                "that is saved in part has one backward, and calls the same operators in every run"
            )
        for go_on, state in self.run.generators.pop(call, ()):
            go_on(state)
        return self.run.results.pop(call)


def tensors_in(value) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def generators_of(call) -> list[tuple]:
    """The functions that set the states of what a call may have drawn from, and the states."""
    own = [leaf for leaf in tree_leaves(call) if isinstance(leaf, torch.Generator)]
    if own:
        return [(generator.set_state, generator.get_state()) for generator in own]
    states = [(torch.set_rng_state, torch.get_rng_state())]
    for device in {tensor.device for tensor in tensors_in(call)} - {torch.device("cpu")}:
        module = torch.get_device_module(device)
        states.append((partial(module.set_rng_state, device=device), module.get_rng_state(device)))
    return states
)";

}  // namespace stowage

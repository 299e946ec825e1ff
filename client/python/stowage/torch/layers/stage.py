"""A layer of the user's model as the executor sees it, and one call of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from stowage.torch.distributed.sharding import is_fully_sharded
from stowage.torch.layers.structure import put_tensors, tensors_of
from stowage.torch.tensors.kept_results import HandOn, Keep, KeptResults, Way
from stowage.torch.tensors.replay import Context, Replay, Snapshot
from stowage.torch.tensors.saved_tensors import Complete, FirstRun, Holder, Note, ReplayRun
from stowage.torch.tensors.storages import Saved, storage_keys
from stowage.torch.tensors.values import Value


class Stage:
    """A layer of the user's model, or several that run as one: what the executor has to know."""

    def __init__(self, name: str, modules: Sequence[nn.Module]) -> None:
        self.name = name
        self.modules = tuple(modules)
        self.parts: nn.Module = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
        self.forwards: tuple[Callable[..., Any], ...] = ()  # of the modules, the user's own
        self.replay = Replay(name, self.parts)
        # A replay may end once it has saved all. Not where the layer's code hides that.
        self.can_stop = True
        self.ways: tuple[Way, ...] = ()  # the save options of its profile
        # Hooks gather its parameters around each call, and hand on aliases of its arguments.
        self.is_sharded = any(map(is_fully_sharded, modules))

    def run(self, args: Any, kwargs: Any) -> Any:
        output = self.forwards[0](*args, **kwargs)
        for forward in self.forwards[1:]:
            output = forward(output)
        return output

    def run_first(
        self,
        holder: Holder,
        number: int,
        template: Any,
        tensors: Sequence[Tensor],
        chain: Sequence[tuple[int, int]],
        args: Any,
        kwargs: Any,
        *,
        saves: bool,
        way: Way | None,
    ) -> FirstCall:
        """The caller's own call, in whose graph are handles of `holder`.

        Args:
            number: what the handles tell the holder, of the stage.
            template, tensors: of the arguments, as of `Call`.
            chain: as of `Call`.
            saves: keeps what the layer saves; with `way`, only that.
        """
        device = tensors[chain[0][0] if chain else 0].device if tensors else torch.device("cpu")
        devices = () if device.type == "cpu" else (device,)
        context = Context.current(device.type)
        keep = Keep(way, self.name, devices) if way is not None else None
        hooks = FirstRun(holder, number, self.name, tensors, chain, saves=saves, part=keep)
        outside: dict[int, Tensor] = {}  # of the graph, by id: a layer may get one tensor twice
        for tensor in tensors:
            if id(tensor) not in outside:
                outside[id(tensor)] = tensor if tensor.is_leaf else _detached(tensor)
        sides: list[Any] = [outside[id(tensor)] for tensor in tensors]
        for slot, _ in chain:
            sides[slot] = None
        snapshot = self.replay.before(devices, sides)
        with hooks, keep or contextlib.nullcontext():
            returned = self.run(args, kwargs)
        self.replay.after(snapshot)
        needs = tuple(tensor.requires_grad for tensor in tensors)
        call = Call(template, sides, needs, chain, context, snapshot, hooks.notes)
        kept = keep.results(drew=snapshot.random is not None) if keep is not None else None
        return FirstCall(returned, call, hooks.take_saved(), kept)

    def run_again(
        self,
        call: Call,
        inputs: Sequence[Tensor],
        *,
        saves: bool,
        stops: bool,
        way: Way | None = None,
    ) -> Value:
        """A replay with these values of the chain: its outputs, detached, and what it has saved.

        With `stops`, ends early where it can, and then has no outputs.
        """
        tensors = call.tensors(inputs)
        keep = Keep(way, self.name, call.snapshot.devices) if way is not None else None
        stops = stops and self.can_stop
        run = ReplayRun(
            call.notes, self.name, tensors, call.chain, saves=saves, stops=stops, part=keep
        )
        outputs = self._replay(call, tensors, run, keep) if run.is_needed else []
        drew = call.snapshot.random is not None
        kept = keep.results(drew=drew) if keep is not None else None
        return Value.of(outputs, run.take_saved(), kept)

    def rerun(self, call: Call, inputs: Sequence[Tensor], value: Value) -> list[Saved]:
        """All that the stage saves, of a value that has a part. Takes that from the value."""
        tensors = call.tensors(inputs)
        held, kept = value.saved or [], value.kept
        value.saved = value.kept = None
        assert kept is not None
        run = ReplayRun(
            call.notes,
            self.name,
            tensors,
            call.chain,
            saves=True,
            stops=self.can_stop,
            held=held,
        )
        if run.is_needed:
            self._replay(call, tensors, run, HandOn(kept, self.name, run) if kept.outputs else None)
        return run.take_saved() or []

    def _replay(
        self,
        call: Call,
        tensors: list[Tensor],
        run: ReplayRun,
        mode: contextlib.AbstractContextManager[Any] | None,
    ) -> list[Tensor]:
        args, kwargs = put_tensors(call.template, tensors)
        outputs: list[Tensor] = []
        with (
            self.replay.again(call.snapshot),
            call.context.again(),
            torch.enable_grad(),
            contextlib.suppress(Complete),
            run,
            mode or contextlib.nullcontext(),
        ):
            returned = self.run(args, kwargs)
            # The layer's code has caught what was to end it.
            self.can_stop = self.can_stop and not run.is_complete
            outputs = [output.detach() for output in tensors_of(returned)]
        run.check()
        return outputs

    def parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.parts.parameters() if parameter.requires_grad]

    def kept_storages(self) -> set[int]:
        """The storages that are no part of its value."""
        return storage_keys([*self.parts.parameters(), *self.parts.buffers()])


@dataclass(slots=True)
class Call:
    """One call of a layer, and what a replay of it needs."""

    template: Any  # (args, kwargs) with a Slot for each tensor
    sides: list[Tensor | None]  # the tensors, detached; None: a value of the chain
    needs: tuple[bool, ...]  # by tensor: whether it needs a gradient
    chain: Sequence[tuple[int, int]]  # slot, index in the value before
    context: Context
    snapshot: Snapshot
    notes: Sequence[Note] = ()  # of the first run

    def tensors(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of a replay with these values of the chain."""
        tensors: list[Any] = list(self.sides)
        for slot, index in self.chain:
            tensors[slot] = inputs[index]
        made: dict[int, Tensor] = {}  # a layer may get one tensor twice
        for slot, tensor in enumerate(tensors):
            # Also of a leaf, on which a layer may put hooks.
            if self.sides[slot] is None or self.needs[slot]:
                if id(tensor) not in made:
                    made[id(tensor)] = _detached(tensor).requires_grad_(self.needs[slot])
                tensors[slot] = made[id(tensor)]
        return tensors


def _detached(tensor: Tensor) -> Tensor:
    """With what Python code has put on it."""
    detached = tensor.detach()
    for name, value in vars(tensor).items():
        vars(detached).setdefault(name, value)
    return detached


class FirstCall(NamedTuple):
    """What a layer returns and saves. `saved`, by handle, is None where nothing was to be kept;
    `kept` is a way's."""

    returned: Any
    call: Call
    saved: list[Saved] | None
    kept: KeptResults | None


def input_slots(tensors: Sequence[Tensor], likely: Sequence[int]) -> Sequence[int]:
    """Which tensors of the first layer's arguments are the chain's input.

    `likely` are those of the second layer; the first one may be called with fewer.
    """
    if all(slot < len(tensors) for slot in likely):
        return likely
    return [next((i for i, tensor in enumerate(tensors) if tensor.is_floating_point()), 0)]

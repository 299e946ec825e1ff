"""Saving a layer in part: a run keeps the results of some operators, and the rerun within the
layer's backward is handed those in place of running them.

Operators are those that torch dispatches below autograd, numbered in order of their calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from stowage.torch.tensors.replay import RandomStates
from stowage.torch.tensors.saved_tensors import ReplayRun
from stowage.torch.tensors.storages import Held, storage_key, tensor_of

# Called by what looks at a run, too, so they have no number.
_IGNORED = frozenset({torch.ops.aten.detach.default, torch.ops.prim.device.default})
_CAST = torch.ops.aten._to_copy.default


@dataclass(frozen=True, slots=True)
class Way:
    """Which results a layer keeps. Equal in every run of the layer."""

    name: str
    operators: tuple[Any, ...]  # all that the layer calls
    kept: frozenset[int]
    # An operator that changes a kept output in place before another has read it, and the number of
    # the one whose output it is: it is handed on as it is after all of those.
    joined: Mapping[int, int]

    def names(self) -> tuple[str, ...]:
        """The calls whose results it keeps, as in `SaveOption.kept`. One that changes a kept result
        in place is among them, since its own result is that one.
        """
        calls: Counter[Any] = Counter()
        names = []
        for number, operator in enumerate(self.operators):
            if number in self.kept or number in self.joined:
                names.append(f"{operator}#{calls[operator]}")
            calls[operator] += 1
        return tuple(names)


@dataclass(slots=True)
class KeptResults:
    """What a run has kept, by operator. One rerun takes it."""

    way: Way
    outputs: dict[int, list[Any]]  # tensors as what a value holds
    several: set[int]  # the operators that return more than one, or a tuple of one
    random: dict[int, RandomStates]  # after operators that drew numbers


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Sees the operators of what runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


def has_no_number(operator: Any, args: Any) -> bool:
    """Whether the call is not among a layer's operators: what looks at a run may call it, or one
    layer casts a weight under autocast, and others find it cast.
    """
    return operator in _IGNORED or (operator is _CAST and isinstance(args[0], nn.Parameter))


def draws(operator: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in operator.tags


class Keep(Mode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a run, inside of its hooks. Keeps nothing where the layer calls other operators."""

    def __init__(self, way: Way, layer: str, devices: tuple[torch.device, ...]) -> None:
        super().__init__()
        self._way = way
        self._layer = layer
        self._devices = devices
        self._count = 0
        self._is_other = False
        self._tensors: dict[int, Any] = {}
        # Of what is kept, after the operator and what is joined to it: torch counts a change in
        # place once this has returned, so it is read at the next operator.
        self._versions: dict[int, list[int]] = {}
        self._changed: int | None = None
        self._random: dict[int, RandomStates] = {}
        self._storages: set[int] = set()
        self._end = 0  # a rerun runs so many operators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note_version()
        output = func(*args, **(kwargs or {}))
        if has_no_number(func, args):
            return output
        number, way = self._count, self._way
        self._count += 1
        if number >= len(way.operators) or way.operators[number] is not func:
            self._is_other = True
            return output
        leader = way.joined.get(number, number)
        if number in way.kept:
            self._tensors[number] = _detached(output)
            self._storages.update(_storages_of(output))
        elif leader == number:
            return output
        elif storage_key(args[0]) not in _storages_of(self._tensors[leader]):
            self._is_other = True  # it writes elsewhere than when it was recorded
            return output
        self._changed = leader
        if draws(func):
            self._random[number] = RandomStates(self._devices)
        return output

    def _note_version(self) -> None:
        if self._changed is not None:
            self._versions[self._changed] = _versions_of(self._tensors[self._changed])
            self._changed = None

    def has(self, tensor: Tensor) -> bool:
        """Whether what is kept holds the tensor. Else a rerun must come as far as this."""
        if tensor.layout is torch.strided and storage_key(tensor) in self._storages:
            return True
        self._end = self._count
        return False

    def results(self, *, drew: bool) -> KeptResults:
        """After the run, without what a rerun does not come to. `drew`: it drew random numbers."""
        self._note_version()
        kept, self._tensors = self._tensors, {}
        if self._is_other or any(
            _versions_of(output) != self._versions[number] for number, output in kept.items()
        ):
            kept = {}
        outputs = {
            number: [
                Held(part, self._layer) if isinstance(part, Tensor) else part
                for part in (output if isinstance(output, tuple) else (output,))
            ]
            for number, output in kept.items()
            if number < self._end
        }
        several = {number for number in outputs if isinstance(kept[number], tuple)}
        return KeptResults(self._way, outputs, several, self._random if drew else {})


class HandOn(Mode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a rerun, inside of its hooks.

    Args:
        kept: the last reference to it.
        run: the hooks.
    """

    def __init__(self, kept: KeptResults, layer: str, run: ReplayRun) -> None:
        super().__init__()
        self._kept = kept
        self._layer = layer
        self._run = run
        self._count = 0
        self._handed_on: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if has_no_number(func, args) or self._run.is_over:
            return func(*args, **(kwargs or {}))
        kept, number = self._kept, self._count
        self._count += 1
        if number >= len(kept.way.operators) or kept.way.operators[number] is not func:
            self._run.refuse(f"calls {func}")
        if number in kept.outputs:
            self._handed_on.add(number)
            parts = [
                # The caller's graph counts changes of its own.
                tensor_of(part, (), self._layer).data if is_saved(part) else part
                for part in kept.outputs.pop(number)
            ]
            result = tuple(parts) if number in kept.several else parts[0]
        elif kept.way.joined.get(number) in self._handed_on:
            result = args[0]
        else:
            return func(*args, **(kwargs or {}))
        if number in kept.random:
            kept.random[number].restore()
        return result


def is_saved(part: Any) -> bool:
    """Whether what an operator returned is a tensor, as a value holds it."""
    return isinstance(part, (Held, tuple))


def _detached(output: Any) -> Any:
    """Without the caller's graph, but with the count of changes in place."""
    if isinstance(output, (tuple, list)):
        return tuple(_detached(part) for part in output)
    if not isinstance(output, Tensor):
        return output
    # Below autograd a detached tensor would have a count of its own.
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):
        return output.detach()


def _versions_of(output: Any) -> list[int]:
    parts = output if isinstance(output, (tuple, list)) else (output,)
    return [part._version for part in parts if isinstance(part, Tensor)]


def _storages_of(output: Any) -> list[int]:
    parts = output if isinstance(output, (tuple, list)) else (output,)
    return [storage_key(part) for part in parts if isinstance(part, Tensor)]

"""Finds the chain in a model: the layers that are called once each, one with the other's output.

The sample runs once, with hooks on every module and with a graph that keeps nothing for a backward.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.torch.sharding import is_fully_sharded
from stowage.torch.structure import tensors_of
from stowage.torch.values import storage_keys


def refuse_caches(name: str, args: Any, kwargs: Any) -> None:
    """Raises where a layer gets transformers' cache of keys and values, which each run extends."""
    for value in (*args, *kwargs.values()):
        if type(value) is Tensor or value is None:  # quickly, since every call asks
            continue
        if hasattr(value, "get_seq_length") and hasattr(value, "update"):
            raise NotAChainError(
                f"{name} gets a cache of keys and values, which is for generation: leave "
                "use_cache=True out of the model's arguments to train"
            )


@dataclass(slots=True, eq=False)
class Visit:
    """One call of one module."""

    module: nn.Module
    name: str
    # The slots of its arguments' tensors that are outputs of the sibling before it.
    links: tuple[int, ...] = ()
    # The other tensors, by id; kept alive by `Trace`.
    others: frozenset[int] = frozenset()
    # Those of them that earlier layers may have made: no leaf, and with a gradient.
    made: frozenset[int] = frozenset()
    value_needs_gradient: bool = False  # whether what `links` names does
    takes_parents_input: bool = False
    writes_input: bool = False  # in place
    may_pass_input: bool = False  # as its output, or as that's memory
    is_one_to_one: bool = False  # one tensor as its only argument, one as its output
    parent_returns_it: bool = False
    bytes: int = 0  # of its output, and of all outputs inside
    calls: int = 1  # of its module
    children: list[Visit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layers:
    """A chain: one or several modules a stage, and where its input is among the first's tensors."""

    names: tuple[str, ...]
    modules: tuple[tuple[nn.Module, ...], ...]
    input_slots: tuple[int, ...]


def find_layers(
    model: nn.Module, run: Callable[[], Any], layers: Iterable[nn.Module] | None
) -> Layers:
    """The chain of `layers`, or the longest one that `run` goes through.

    `run` calls the model with a sample. Raises `NotAChainError`.
    """
    # The graph tells what depends on parameters; what a backward would need of it is dropped.
    nothing_saved = torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, _never)
    with torch.enable_grad(), nothing_saved, _Trace(model, layers) as trace:
        run()
    if layers is not None:
        return _named_chain(trace, list(layers))
    runs = [run for visit in trace.visits for run in _runs(visit.children)]
    runs = [joined for run in runs if len(joined := _without_bad_start(run)) > 1]
    if not runs:
        raise NotAChainError(
            "the model has no layers that are called once each, one with the output of the one "
            "before: pass layers=, a list of modules that are"
        )
    best = max(runs, key=_worth)
    return _joined(best)


def _never(saved: Any) -> Tensor:
    raise NotAChainError(
        "the model or its loss runs a backward inside its forward, whose values a recomputation "
        "would change"
    )


def _worth(run: Sequence[Visit]) -> float:
    # What a schedule can save: all but one stage of what the chain holds.
    sizes = [visit.bytes for visit in run]
    return sum(sizes) - max(sizes)


class _Trace:
    """Hooks that record the calls of a model's modules."""

    def __init__(self, model: nn.Module, layers: Iterable[nn.Module] | None) -> None:
        self.root = Visit(model, "")
        self.visits = [self.root]
        self._names = {module: name for name, module in model.named_modules()}
        if layers is not None:
            self._watched = {module: self._names.get(module, "?") for module in layers}
        else:
            self._watched = {m: name for m, name in self._names.items() if m is not model}
        self._counts: dict[nn.Module, int] = {}
        self._stack: list[tuple[Visit, list[Tensor], list[int]]] = []
        # By visit: the last child's outputs, and their versions then.
        self._last: dict[int, list[tuple[weakref.ref[Tensor], int]]] = {}
        self._kept: list[Tensor] = []  # side inputs, so that an id stands for one tensor

    def __enter__(self) -> _Trace:
        self._handles = []
        for module in self._watched:
            # Those of fully_shard hand on other tensors than they get.
            before = module.register_forward_pre_hook(
                self._before, prepend=is_fully_sharded(module), with_kwargs=True
            )
            after = module.register_forward_hook(self._after, with_kwargs=True)
            self._handles += [before, after]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        for visit in self.visits:
            visit.calls = self._counts.get(visit.module, 1)
        self._kept.clear()

    def _parent(self) -> Visit:
        return self._stack[-1][0] if self._stack else self.root

    # Hooks of compiled layers run outside of what is compiled.
    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        tensors = tensors_of((args, kwargs))
        visit = Visit(module, self._watched[module])
        parent = self._parent()
        last = {
            id(t)
            for r, version in self._last.get(id(parent), ())
            if (t := r()) is not None and t._version == version
        }
        visit.links = tuple(slot for slot, tensor in enumerate(tensors) if id(tensor) in last)
        others = [tensor for tensor in tensors if id(tensor) not in last]
        made = [tensor for tensor in others if tensor.requires_grad and not tensor.is_leaf]
        visit.others = frozenset(id(tensor) for tensor in others)
        visit.made = frozenset(id(tensor) for tensor in made)
        visit.value_needs_gradient = any(tensors[slot].requires_grad for slot in visit.links)
        # A table, such as that of rotary positions, is not the value where another tensor is.
        if made and not visit.value_needs_gradient:
            visit.links = ()
        self._kept += [tensor for tensor in others if parent.children]
        if self._stack:
            outer = {id(tensor) for tensor in self._stack[-1][1]}
            visit.takes_parents_input = any(id(tensor) in outer for tensor in tensors)
        visit.is_one_to_one = len(args) == 1 and not kwargs and isinstance(args[0], Tensor)
        self._counts[module] = self._counts.get(module, 0) + 1
        self._stack.append((visit, tensors, [tensor._version for tensor in tensors]))

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        visit, tensors, versions = self._stack.pop()
        outputs = tensors_of(output)
        visit.writes_input = any(
            tensor._version != version for tensor, version in zip(tensors, versions, strict=True)
        )
        # Dropout passes its input in eval().
        visit.may_pass_input = isinstance(module, nn.modules.dropout._DropoutNd) or (
            not storage_keys(tensors).isdisjoint(storage_keys(outputs))
        )
        visit.is_one_to_one = visit.is_one_to_one and isinstance(output, Tensor)
        visit.bytes += sum(tensor.nbytes for tensor in outputs)
        inner = {id(t) for r, _ in self._last.pop(id(visit), ()) if (t := r()) is not None}
        if visit.children:
            visit.children[-1].parent_returns_it = any(id(t) in inner for t in outputs)
        parent = self._parent()
        parent.bytes += visit.bytes
        parent.children.append(visit)
        self._last[id(parent)] = [(weakref.ref(tensor), tensor._version) for tensor in outputs]
        self.visits.append(visit)


def _expanded(visit: Visit) -> list[Visit]:
    """The visit, or those of its parts where it is a Sequential of them."""
    parts = visit.children
    if (
        type(visit.module).forward is not nn.Sequential.forward
        or visit.module._forward_hooks
        or visit.module._forward_pre_hooks
        or not parts
        or not parts[0].takes_parents_input
        or not parts[-1].parent_returns_it
        or not all(part.links for part in parts[1:])
    ):
        return [visit]
    first = parts[0]
    first.links, first.others, first.made = visit.links, visit.others, visit.made
    first.value_needs_gradient = visit.value_needs_gradient
    return [inner for part in parts for inner in _expanded(part)]


def _runs(siblings: Sequence[Visit]) -> list[list[Visit]]:
    """The parts of the siblings, split where a chain ends."""
    runs: list[list[Visit]] = []
    for visit in (inner for sibling in siblings for inner in _expanded(sibling)):
        if visit.calls > 1:
            runs.append([])
        elif runs and runs[-1] and visit.links and _shares_sides(visit, runs[-1]):
            runs[-1].append(visit)
        else:
            runs.append([visit])
    return runs


def _shares_sides(visit: Visit, run: Sequence[Visit]) -> bool:
    """Whether none of the tensors beside the value can come from layers of the run.

    Tensors that all layers get come from before. So do leaves, and masks and tables, which no
    gradient passes through, as soon as one passes through the value.
    """
    sides = [before for before in run[1:] if before.others]
    if not visit.others or not sides:
        return True
    if visit.value_needs_gradient and sides[-1].value_needs_gradient:
        return len({each.made for each in (*sides, visit) if each.made}) <= 1
    return visit.others == sides[-1].others


def _maker_of_input(run: Sequence[Visit], index: int) -> int:
    """The layer that may have made the memory of the input of another one; -1: none of the run."""
    maker = index - 1
    while maker >= 0 and run[maker].may_pass_input:
        maker -= 1
    return maker


def _without_bad_start(run: list[Visit]) -> list[Visit]:
    """The run from where no layer writes its input, except where it can join its maker."""
    start = 0
    for i, visit in enumerate(run):
        maker = _maker_of_input(run, i)
        joins = maker >= start and all(each.is_one_to_one for each in run[maker : i + 1])
        if visit.writes_input and not joins:
            start = i + 1
    return run[start:]


def _joined(run: Sequence[Visit]) -> Layers:
    """Stages; a layer that writes its input is one with the layer that made that."""
    stages: list[list[Visit]] = []
    for i, visit in enumerate(run):
        stages.append([visit])
        maker = _maker_of_input(run, i) if visit.writes_input else i
        while i + 1 - len(stages[-1]) > maker:
            last = stages.pop()
            stages[-1] += last
    names = tuple(
        stage[0].name if len(stage) == 1 else f"{stage[0].name}..{stage[-1].name}"
        for stage in stages
    )
    modules = tuple(tuple(visit.module for visit in stage) for stage in stages)
    # The first layer is called as the others are, unless it gets other tensors.
    slots = run[1].links if len(run) > 1 else (0,)
    return Layers(names, modules, slots)


def _named_chain(trace: _Trace, layers: Sequence[nn.Module]) -> Layers:
    visits = {visit.module: visit for visit in trace.visits}
    run: list[Visit] = []
    for module in layers:
        visit = visits.get(module)
        name = trace._names.get(module, type(module).__name__)
        if module not in trace._names:
            raise NotAChainError(f"layers: {name} is no part of the model")
        if visit is None:
            raise NotAChainError(f"layers: {name} is not called for this sample: leave it out")
        if visit.calls > 1:
            raise NotAChainError(
                f"layers: {name} is called {visit.calls} times a step, and a stage runs once: "
                "leave it out, or use copies of it"
            )
        run.append(visit)
    if len(run) < 2:
        raise NotAChainError(f"layers: a chain has two layers at least, not {len(run)}")
    order = [visit for visit in trace.visits if visit.module in visits and visit in run]
    if order != run:
        raise NotAChainError(
            "layers: they are called in another order: " + ", ".join(visit.name for visit in order)
        )
    for before, visit in itertools.pairwise(run):
        if not visit.links:
            raise NotAChainError(
                f"layers: {visit.name} does not get the output of {before.name} as it is: the "
                "model changes the value between them. Make that change part of a layer, or end "
                "the chain there"
            )
    for i, visit in enumerate(run):
        if not _shares_sides(visit, run[:i]):
            raise NotAChainError(
                f"layers: {visit.name} gets other tensors than {run[1].name} beside the value of "
                "the chain: what a layer needs of earlier layers must be part of their output, and "
                "what is computed of parameters before them the same for all"
            )
    if len(_without_bad_start(run)) != len(run):
        bad = next(visit for visit in reversed(run) if visit.writes_input)
        raise NotAChainError(
            f"layers: {bad.name} changes its input in place, so what is before it cannot be "
            "recomputed: use inplace=False there"
        )
    return _joined(run)

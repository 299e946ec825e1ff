"""Finds a model's layers: a chain of those that are called once each, one with the other's output;
or, where that holds too little of what a step keeps, layers that are replayed apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.torch.layers.separate_layers import (
    least_bytes,
    least_of_chain,
    named_layers,
    separate_layers,
)
from stowage.torch.layers.visits import Trace, Visit

# A chain may take so many times the memory that separate layers take, since there are more plans
# for it; unless its layers are coarse, as stages of blocks are.
_CHAIN_IS_WORTH = 1.25


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


@dataclass(frozen=True, slots=True)
class Layers:
    """One or several modules a stage, in the order of their calls.

    Of a chain, `input_slots` says where its input is among the first stage's tensors. Else it is
    None: the stages are replayed apart from each other, and a module may be called several times.
    """

    names: tuple[str, ...]
    modules: tuple[tuple[nn.Module, ...], ...]
    elements: tuple[int, ...]  # by stage: of the tensors that it was called with
    input_slots: tuple[int, ...] | None

    @property
    def is_chain(self) -> bool:
        return self.input_slots is not None

    def apart(self) -> Layers:
        """The same, to be replayed apart."""
        return replace(self, input_slots=None)


def find_layers(
    model: nn.Module,
    run: Callable[[], Any],
    layers: Iterable[nn.Module] | None,
    *,
    may_be_apart: bool = False,
) -> Layers:
    """`layers`, or those of the calls that `run` makes with which a step takes the least memory.

    `run` calls the model with a sample. Raises `NotAChainError`, also where they are no chain
    unless they may be apart.
    """
    with torch.enable_grad(), Trace(model, layers) as trace:
        run()
    if layers is None:
        return _found(trace, may_be_apart=may_be_apart)
    named = list(layers)
    try:
        return _named_chain(trace, named)
    except NotAChainError:
        apart = named_layers(trace, named) if may_be_apart else []
        if not apart:
            raise
    return _apart(apart)


def _found(trace: Trace, *, may_be_apart: bool) -> Layers:
    runs = [run for visit in trace.visits for run in _runs(visit.children)]
    runs = [joined for run in runs if len(joined := _without_bad_start(run)) > 1]
    best = max(runs, key=_worth, default=[])
    apart = separate_layers(trace.root) if may_be_apart else []
    is_coarse = 2 * len(best) < len(apart)
    enough = (1.0 if is_coarse else _CHAIN_IS_WORTH) * least_bytes(trace.root, apart)
    if apart and (not best or least_of_chain(trace.root, best) > enough):
        return _apart(apart)
    if not best:
        raise NotAChainError(
            "the model has no layers that are called once each, one with the output of the one "
            "before, nor others that it saves memory to replay: pass layers=, a list of modules"
        )
    return _joined(best)


def _apart(visits: Sequence[Visit]) -> Layers:
    turns: dict[nn.Module, int] = {}
    names = []
    for visit in visits:
        turn = turns[visit.module] = turns.get(visit.module, 0) + 1
        names.append(visit.name if visit.calls == 1 else f"{visit.name} (call {turn})")
    modules = tuple((visit.module,) for visit in visits)
    return Layers(tuple(names), modules, tuple(visit.elements for visit in visits), None)


def _worth(run: Sequence[Visit]) -> float:
    # What a schedule can save: all but one stage of what the chain holds.
    sizes = [visit.bytes for visit in run]
    return sum(sizes) - max(sizes)


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
    elements = tuple(stage[0].elements for stage in stages)
    return Layers(names, modules, elements, slots)


def _named_chain(trace: Trace, layers: Sequence[nn.Module]) -> Layers:
    visits = {visit.module: visit for visit in trace.visits}
    run: list[Visit] = []
    for module in layers:
        visit = visits.get(module)
        name = trace.names.get(module, type(module).__name__)
        if module not in trace.names:
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

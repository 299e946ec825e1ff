"""Chooses layers that are replayed apart from each other, each right before its own backward.

For models whose layers are no one chain: encoders with decoders, towers, stages of blocks, layers
that are called many times. What is between the layers is kept as it is.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import nn

from stowage.errors import NotAChainError
from stowage.torch.layers.visits import Trace, Visit

# Of what a step takes: how much larger layers may take more than the best, to be preferred.
_SIMPLER = 0.03
# The part of it that a kind of layers must save at least.
_WORTHWHILE = 200


@dataclass
class _Kind:
    """Calls of modules whose names differ in numbers alone, as the blocks of a stage."""

    visits: list[Visit] = field(default_factory=list)
    parts: dict[str, _Kind] = field(default_factory=dict)

    @functools.cached_property
    def most_bytes(self) -> int:
        return max(visit.saved_bytes for visit in self.visits)

    @functools.cached_property
    def gain(self) -> int:
        """What it saves to replay them; -1: they may not be."""
        if any(map(_why_not_replayed, self.visits)):
            return -1
        return sum(map(_gain, self.visits))

    def inner(self) -> Iterator[_Kind]:
        for part in self.parts.values():
            yield part
            yield from part.inner()


def separate_layers(root: Visit) -> list[Visit]:
    """The calls inside of `root` with which a step takes the least memory, if each is replayed.

    All calls of a kind are layers, or none. Empty where there are not at least two.
    """
    whole = _Kind()
    _add(whole, root)
    found: list[tuple[int, list[Visit]]] = []
    for most in sorted({kind.most_bytes for kind in whole.inner()}):
        _, kinds = _best(whole.parts.values(), most, root.saved_bytes // _WORTHWHILE + 1)
        visits = [visit for kind in kinds for visit in kind.visits]
        if len(visits) > 1 and _are_whole(visits):
            found.append((least_bytes(root, visits), visits))
    if not found:
        return []
    enough = min(least for least, _ in found) + _SIMPLER * root.saved_bytes
    fewest = min((visits for least, visits in found if least <= enough), key=len)
    return _in_order(root, fewest)


def least_bytes(root: Visit, layers: Sequence[Visit]) -> int:
    """What a step takes if each layer is replayed, as far as calls tell."""
    replayed = [visit for visit in layers if _gain(visit) > 0]
    inside = sum(visit.saved_bytes for visit in replayed)
    largest = max((visit.saved_bytes for visit in replayed), default=0)
    return root.saved_bytes - inside + _bytes_of_inputs(replayed) + largest


def least_of_chain(root: Visit, run: Sequence[Visit]) -> int:
    """The same of a chain, in which layers in a row may be replayed as one."""
    least = least_bytes(root, run)
    inside = sum(visit.saved_bytes for visit in run)
    for count in range(2, len(run)):
        starts, largest, current = [run[0]], 0, 0
        for visit in run:
            if current + visit.saved_bytes > inside // count and current > 0:
                starts.append(visit)
                current = 0
            current += visit.saved_bytes
            largest = max(largest, current)
        least = min(least, root.saved_bytes - inside + _bytes_of_inputs(starts) + largest)
    return least


def _bytes_of_inputs(visits: Iterable[Visit]) -> int:
    """Of their arguments, each storage once."""
    return sum({key: size for visit in visits for key, size in visit.inputs.items()}.values())


def named_layers(trace: Trace, modules: Sequence[nn.Module]) -> list[Visit]:
    """The calls of `modules`. Empty where one is not called.

    Raises `NotAChainError` where one may not be replayed.
    """
    for module in modules:
        for other in modules:
            if other is not module and other in module.modules():
                raise NotAChainError(
                    f"layers: {trace.names[other]} is a part of {trace.names[module]}: leave one "
                    "of the two out"
                )
    visits = _in_order(trace.root, [visit for visit in trace.visits if visit.module in modules])
    if {visit.module for visit in visits} != set(modules):
        return []
    for visit in visits:
        why_not = _why_not_replayed(visit)
        if sum(other.module is visit.module for other in visits) != visit.calls:
            why_not = "calls itself"
        if why_not:
            raise NotAChainError(
                f"layers: {visit.name} {why_not}, so it cannot be recomputed: change that, or "
                "leave it out"
            )
    return visits


def _gain(visit: Visit) -> int:
    """What is saved if it is replayed, which keeps its arguments."""
    return max(0, visit.saved_bytes - sum(visit.inputs.values()))


def _why_not_replayed(visit: Visit) -> str:
    """For an error; "": it may be."""
    if visit.writes_input:
        return "changes its arguments in place"
    if visit.input_changes:
        return "gets arguments that are changed in place after it has read them"
    if visit.has_made_weights:
        return "has a weight that a hook computes before each call"
    return "" if visit.elements > 0 else "gets no tensor among its arguments"


def _add(kind: _Kind, visit: Visit) -> None:
    for child in visit.children:
        part = kind.parts.setdefault(re.sub(r"\d+", "#", child.name), _Kind())
        part.visits.append(child)
        _add(part, child)


def _best(kinds: Iterable[_Kind], most: int, least: int) -> tuple[int, list[_Kind]]:
    """What is saved by layers that save no more than `most` each, and which those are.

    Kinds that gain less than `least` are none.
    """
    total, chosen = 0, []
    for kind in kinds:
        gain, inner = _best(kind.parts.values(), most, least)
        own = kind.gain if kind.most_bytes <= most else 0
        if own >= max(gain, least):
            gain, inner = own, [kind]
        total += gain
        chosen += inner
    return total, chosen


def _are_whole(visits: Sequence[Visit]) -> bool:
    """Whether they are all calls of their modules: a module is called by more than one parent."""
    counts = Counter(visit.module for visit in visits)
    return all(counts[visit.module] == visit.calls for visit in visits)


def _in_order(root: Visit, layers: Sequence[Visit]) -> list[Visit]:
    wanted = set(map(id, layers))

    def inside(visit: Visit) -> Iterator[Visit]:
        for child in visit.children:
            if id(child) in wanted:
                yield child
            else:
                yield from inside(child)

    return list(inside(root))

"""Takes tensors out of a call's arguments and puts others in their place.

A layer may get and return one tensor, or tuples, lists and dicts of them (also named tuples and
transformers' ``ModelOutput``), with other things between. What the rest of this package handles is
a flat list of tensors and a template, in which a `Slot` stands for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of the tensor with this index."""

    index: int


def take_tensors(structure: Any, tensors: list[Tensor]) -> Any:
    """Appends the tensors of `structure` to `tensors`; returns the template that is left."""
    if isinstance(structure, Tensor):
        tensors.append(structure)
        return Slot(len(tensors) - 1)
    kind = type(structure)
    if kind is tuple or kind is list:
        return kind(take_tensors(entry, tensors) for entry in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return kind._make(take_tensors(entry, tensors) for entry in structure)  # type: ignore[attr-defined, unused-ignore]
    if isinstance(structure, dict):
        # A ModelOutput leaves out what is None and is a dict of the rest.
        entries = {key: take_tensors(entry, tensors) for key, entry in structure.items()}
        if kind is dict:
            return entries
        if isinstance(structure, defaultdict):
            return _Rebuilt(kind, entries, (structure.default_factory,), by_name=False)
        return _Rebuilt(kind, entries, (), by_name=all(isinstance(key, str) for key in entries))
    return structure


def put_tensors(template: Any, tensors: Sequence[Tensor]) -> Any:
    """The structure that `template` came from, with these tensors."""
    kind = type(template)
    if kind is Slot:
        return tensors[template.index]
    if kind is tuple or kind is list:
        return kind(put_tensors(entry, tensors) for entry in template)
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return kind._make(put_tensors(entry, tensors) for entry in template)  # type: ignore[attr-defined, unused-ignore]
    if kind is dict:
        return {key: put_tensors(entry, tensors) for key, entry in template.items()}
    if kind is _Rebuilt:
        entries = {key: put_tensors(entry, tensors) for key, entry in template.entries.items()}
        if template.by_name:
            return template.kind(**entries)
        return template.kind(*template.first, entries)
    return template


def tensors_of(structure: Any) -> list[Tensor]:
    """The tensors of `structure`, in the order of `take_tensors`."""
    tensors: list[Tensor] = []
    take_tensors(structure, tensors)
    return tensors


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A subclass of dict, by its class and entries."""

    kind: type
    entries: dict[Any, Any]
    first: tuple[Any, ...]  # the class's first arguments
    by_name: bool  # makes it of keyword arguments, as a ModelOutput

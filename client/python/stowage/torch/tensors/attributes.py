"""What the code of modules reads from their attributes: numbers, strings, None, short containers of
them, functions; and which tensors there are.
"""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Names and values of one module's attributes.
Read = tuple[tuple[str, ...], tuple[Any, ...]]

SIMPLE = (
    *(int, float, complex, str, bytes, type(None), enum.Enum, torch.dtype, torch.device),
    # Compared by identity.
    *(type, types.FunctionType, types.BuiltinFunctionType),
)
# What is not looked at: other things, or too many of them. Of no type that is SIMPLE.
_UNKNOWN = object()
_CONTAINERS = (list, tuple, set, frozenset, dict)
_MOST_ENTRIES = 32
# Torch's own, but for the mode.
_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"training"}


class Attributes:
    """Reads the attributes of one module quickly: those that were of these types in the last read.

    Never holds a tensor, whose memory and graph would stay.
    """

    __slots__ = ("_containers", "_get", "_kinds", "_module", "_names", "_size")

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._learn()

    def read(self) -> Read:
        entries = vars(self._module)
        if len(entries) == self._size:
            try:
                found = self._get(entries)
            except KeyError:
                pass
            else:
                if self._kinds.issuperset(map(type, found)):
                    if not self._containers:
                        return self._names, found
                    return self._names + self._containers, found + self._frozen(entries)
        self._learn()
        return self._names + self._containers, self._get(entries) + self._frozen(entries)

    def _learn(self) -> None:
        entries = {
            name: value
            for name, value in vars(self._module).items()
            if name not in _OF_EVERY_MODULE
        }
        self._size = len(vars(self._module))
        simple = {name: value for name, value in entries.items() if isinstance(value, SIMPLE)}
        self._names = tuple(simple)
        self._kinds = frozenset(map(type, simple.values()))
        self._get = _getter(self._names)
        self._containers = tuple(
            name for name, value in entries.items() if isinstance(value, (*_CONTAINERS, Tensor))
        )

    def _frozen(self, entries: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(_copy(entries.get(name)) for name in self._containers)


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        return lambda entries: (entries[names[0]],)
    return operator.itemgetter(*names) if names else lambda entries: ()


def _copy(value: Any) -> Any:
    """What an attribute holds, without holding a tensor."""
    if isinstance(value, SIMPLE):
        return value
    if isinstance(value, Tensor):
        # What needs a gradient is rather what a hook has left there than what a layer reads.
        return _UNKNOWN if value.requires_grad else (id(value), value._version)
    if not isinstance(value, _CONTAINERS) or len(value) > _MOST_ENTRIES:
        return _UNKNOWN
    entries: Iterable[Any] = value
    if isinstance(value, dict):
        entries = [thing for pair in value.items() for thing in pair]
    if not all(isinstance(entry, SIMPLE) for entry in entries):
        return _UNKNOWN
    return frozenset(entries) if isinstance(value, (set, frozenset)) else tuple(entries)


def changed(before: Read, now: Read) -> set[str]:
    """The names of what was in `before` and is not the same."""
    if before == now:
        return set()
    values = dict(zip(*now, strict=True))
    return {
        name
        for name, value in zip(*before, strict=True)
        if name not in values or (values[name] is not value and values[name] != value)
    }

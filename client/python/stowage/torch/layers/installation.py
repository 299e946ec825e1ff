"""Puts something in the place of the layers' own forwards, and takes it out again."""

from __future__ import annotations

import copy
import functools
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from stowage.torch.layers.stage import Stage
from stowage.torch.layers.traced import BrokenGraphError

# Called for each layer: (stage from 1, args, kwargs) -> what the layer returns.
Handler = Callable[[int, Any, Any], Any]


class LayerForward:
    """What stands in a layer's ``forward``. Copies and pickles of the model get the layer's own:
    that of its class, or a copy of an attribute of the layer itself (`was_own`).
    """

    def __init__(
        self,
        module: nn.Module,
        original: Callable[..., Any],
        was_own: bool,
        handler: Any,
        traced: Callable[..., Any] | None,
    ) -> None:
        self._module = module
        self._original = original
        self._was_own = was_own
        self._handler = handler  # (args, kwargs) -> what the layer returns
        self._traced = traced  # by torch.compile of the whole model; None: its graph breaks here
        functools.update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self._original(*args, **kwargs)
        if self._traced is not None and torch.compiler.is_compiling():
            # Where the graph breaks inside of the layer, torch.compile runs all of this as it
            # stands, since it cannot go on in the middle of a try.
            try:
                return self._traced(*args, **kwargs)
            except BrokenGraphError:
                pass
        return self._run(args, kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _run(self, args: Any, kwargs: Any) -> Any:
        return self._handler(args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._was_own:
            return copy.deepcopy(self._original, memo)
        copied = memo.get(id(self._module), self._module)
        return types.MethodType(type(self._module).forward, copied)

    def __reduce__(self) -> Any:
        # Neither needs Stowage.
        if self._was_own:
            return operator.getitem, ((self._original,), 0)
        # Read before the module's attributes are, so this is the class's.
        return getattr, (self._module, "forward")


class Installation:
    """The replaced forwards of some stages. Undone by `remove`, once.

    The calls of a module of several stages are those of the stages in turn, from `begin` on.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        handler: Handler,
        traced: Callable[[int], Callable[..., Any] | None] = lambda stage: None,
    ) -> None:
        self._replaced: list[tuple[nn.Module, str, bool, Any]] = []
        self._turns: dict[nn.Module, _Turns] = {}
        for number, stage in enumerate(stages, 1):
            first, *others = stage.modules
            if first in self._turns:
                turns = self._turns[first]
                turns.numbers.append(number)
                stage.forwards = stages[turns.numbers[0] - 1].forwards
                continue
            originals = [self._original(module) for module in stage.modules]
            stage.forwards = tuple(original for _, _, original in originals)
            self._turns[first] = turns = _Turns(handler, [number])
            is_one = sum(first in other.modules for other in stages) == 1
            self._replace(first, originals[0], turns, traced(number) if is_one else None)
            # The first module of a joined stage has run them all.
            for module, original in zip(others, originals[1:], strict=True):
                self._replace(module, original, _passes_on, _first_of)

    def begin(self) -> None:
        """With a forward of the model, also where one before has ended early."""
        for turns in self._turns.values():
            turns.next = 0

    def remove(self) -> None:
        for module, attribute, was_own, value in reversed(self._replaced):
            if was_own:
                module.__dict__[attribute] = value
            else:
                module.__dict__.pop(attribute, None)
        self._replaced = []

    @staticmethod
    def _original(module: nn.Module) -> tuple[str, bool, Callable[..., Any]]:
        # Module.compile() has a call of its own, which would trace what stands in forward.
        compiled = module.__dict__.get("_compiled_call_impl")
        if compiled is not None:
            return "_compiled_call_impl", True, compiled
        return "forward", "forward" in module.__dict__, module.forward

    def _replace(
        self,
        module: nn.Module,
        original: tuple[str, bool, Callable[..., Any]],
        handler: Any,
        traced: Callable[..., Any] | None,
    ) -> None:
        attribute, was_own, function = original
        self._replaced.append((module, attribute, was_own, function))
        module.__dict__[attribute] = LayerForward(module, function, was_own, handler, traced)


@dataclass(slots=True)
class _Turns:
    """Calls the handler with the stages of one module in turn."""

    handler: Handler
    numbers: list[int]
    next: int = 0  # an index of `numbers`

    def __call__(self, args: Any, kwargs: Any) -> Any:
        number = self.numbers[self.next]
        self.next = (self.next + 1) % len(self.numbers)
        return self.handler(number, args, kwargs)


def _passes_on(args: Any, kwargs: Any) -> Any:
    return args[0]


def _first_of(value: Any) -> Any:
    return value

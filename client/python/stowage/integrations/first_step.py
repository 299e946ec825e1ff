"""Fits a model at the first call that trains it, with that call's own arguments as the sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import stowage
from stowage.errors import StowageError
from stowage.torch import Fitted
from stowage.torch.layers.switches import warn_of_no_plan


class FirstStep:
    """Waits for a model's first training step, and fits it there.

    What a trainer calls the model with, and under which autocast, is not known any earlier. Each
    process of a sharded or wrapped model has one, and all reach that step.

    Args:
        model: as the trainer calls it, or the part that has the layers.
        strict: raises where no schedule can be found; else warns, and the model trains as it is.
        before_all_hooks: also before those that are yet to be registered. The model may not be
            compiled itself.
        arguments: of `stowage.fit`, but for the model and the sample.
    """

    def __init__(
        self, model: nn.Module, *, strict: bool, before_all_hooks: bool = False, **arguments: Any
    ) -> None:
        self._model = model
        self._strict = strict
        self._arguments = arguments
        self.fitted: Fitted | None = None  # None: not yet, or it could not be
        # Before the hooks of fully_shard, which have begun a step then.
        self._handle: Any = (
            _Call(model, self._before)
            if before_all_hooks
            else model.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
        )

    def check(self) -> None:
        """After a step. Raises, or warns, where the model was not called in it."""
        if self._handle is None:
            return
        self._handle.remove()
        self._handle = None
        self._complain(
            StowageError(
                f"{type(self._model).__name__} was not called in the first training step, so that "
                "there is no plan: name the module that the step calls"
            )
        )

    def remove(self) -> None:
        """The model as it was."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if self.fitted is not None:
            stowage.unfit(self._model)
            self.fitted = None

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _before(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not (model.training and torch.is_grad_enabled()):
            return
        self._handle.remove()
        self._handle = None
        try:
            sample = _sample_of(model, args, kwargs)
            self.fitted = stowage.fit(model, sample, **self._arguments)
        except StowageError as error:
            self._complain(error)

    def _complain(self, error: StowageError) -> None:
        if self._strict:
            raise error
        warn_of_no_plan(error)


class _Call:
    """Stands where Module.compile() puts a module's call, and runs something before that."""

    def __init__(self, model: nn.Module, before: Callable[..., None]) -> None:
        self._model = model
        self._run_before = before
        model._compiled_call_impl = self  # type: ignore[assignment, unused-ignore]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._run_before(self._model, args, kwargs)
        return self._model._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call, unused-ignore]

    def remove(self) -> None:
        self._model._compiled_call_impl = None


def _sample_of(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...] | dict[str, Any]:
    """The arguments as `fit` takes them: all by name where one is."""
    if not kwargs:
        return args
    names = _positional_names(model.forward)
    if len(args) > len(names):
        raise StowageError("the model gets arguments by place and by name: fit it by hand instead")
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _positional_names(forward: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(forward).parameters.values() if p.kind in kinds]

"""Puts a program in the place of the layers' own forwards, and takes it out again."""

from __future__ import annotations

import copy
import functools
import operator
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stowage.torch.checkpointed import (
    BrokenGraphError,
    all_in_turn,
    run_checkpointed,
    traced_by_compile,
)
from stowage.torch.executor import Pass
from stowage.torch.kept_results import Way
from stowage.torch.other_sizes import OtherSizes
from stowage.torch.program import Program
from stowage.torch.stage import Stage
from stowage.torch.structure import tensors_of
from stowage.torch.switches import checkpoints_itself, warn_of_checkpointing
from stowage.torch.transfers import Transfers

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
    """The replaced forwards of some stages. Undone by `remove`, once."""

    def __init__(
        self,
        stages: Sequence[Stage],
        handler: Handler,
        traced: Callable[[int], Callable[..., Any] | None] = lambda stage: None,
    ) -> None:
        self._replaced: list[tuple[nn.Module, str, bool, Any]] = []
        for number, stage in enumerate(stages, 1):
            first, *others = stage.modules
            originals = [self._original(module) for module in stage.modules]
            stage.forwards = tuple(original for _, _, original in originals)
            self._replace(first, originals[0], _at_stage(handler, number), traced(number))
            # The first module of a joined stage has run them all.
            for module, original in zip(others, originals[1:], strict=True):
                self._replace(module, original, _passes_on, _first_of)

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


def _at_stage(handler: Handler, number: int) -> Any:
    return lambda args, kwargs: handler(number, args, kwargs)


def _passes_on(args: Any, kwargs: Any) -> Any:
    return args[0]


def _first_of(value: Any) -> Any:
    return value


class Coordinator:
    """Starts a pass at each forward of the first layer, and hands it the layers' calls.

    One thread at a time. Several passes may be under way: each lives as long as the graph of the
    caller's output, so that a forward without a backward, or one that raised, leaves nothing.
    Between two layers it lives as long as any output of the first.

    With `by_checkpoint`, programs that replay layers in turn are run by `torch.utils.checkpoint`
    instead, layer by layer and without a pass.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        program: Program,
        transfers: Transfers,
        chain_slots: Sequence[int],
        other_sizes: OtherSizes | None = None,
        *,
        by_checkpoint: bool = False,
    ) -> None:
        self.stages = tuple(stages)
        self.program = program
        self._by_checkpoint = by_checkpoint
        # Of the step, where it is run without a pass.
        self._without_pass: Program | None = program if self._can_do_without(program) else None
        self._other_sizes = other_sizes
        self._transfers = transfers
        self._chain_slots = tuple(chain_slots)
        self._pass: Pass | None = None
        self._outputs: list[weakref.ref[Tensor]] = []  # of the layer called last
        self._installed: Installation | None = None
        self._has_warned = False

    def install(self) -> None:
        self._installed = Installation(self.stages, self._call, self._traced)

    def remove(self) -> None:
        self._pass = None
        if self._installed is not None:
            self._installed.remove()
            self._installed = None

    @property
    def other_sizes(self) -> OtherSizes | None:
        """The plans for inputs of other sizes; None: it has one plan."""
        return self._other_sizes

    def _call(self, stage: int, args: Any, kwargs: Any) -> Any:
        if stage == 1:
            self._warn_once()
            program, observed = self.program, None
            if self._other_sizes is not None:
                program, observed = self._other_sizes.program_for(args, kwargs)
            is_without = self._can_do_without(program) and observed is None
            self._without_pass = program if is_without else None
            if not is_without:
                self._pass = Pass(self.stages, program, self._transfers, observed)
        if self._without_pass is not None:
            self._pass = None
            return self._run_alone(self._without_pass, stage, args, kwargs)
        run = self._pass
        if run is None or run.called != stage - 1:
            self._pass = None
            raise RuntimeError(
                f"{self.stages[stage - 1].name} was called out of order: under a schedule each "
                f"layer is called once a step, from {self.stages[0].name} to "
                f"{self.stages[-1].name}. Call stowage.unfit(model), or fit it again"
            )
        # Whatever happens until the layer returns, the coordinator does not hold the pass.
        self._pass = None
        output = run.call(stage, args, kwargs, self._chain_slots)
        if stage < len(self.stages):
            self._outputs = [weakref.ref(tensor, self._forget) for tensor in tensors_of(output)]
            self._pass = run
        return output

    def _warn_once(self) -> None:
        """Of a trainer that has switched the layers' own checkpointing on since."""
        first = self.stages[0]
        if not self._has_warned and any(map(checkpoints_itself, first.modules)):
            self._has_warned = True
            warn_of_checkpointing(first.name)

    def _can_do_without(self, program: Program) -> bool:
        return program.is_plain or (self._by_checkpoint and program.in_turn)

    def _run_alone(self, program: Program, stage: int, args: Any, kwargs: Any) -> Any:
        if program.plain[stage]:
            return self.stages[stage - 1].run(args, kwargs)
        return run_checkpointed(self.stages[stage - 1], self._way(program, stage), args, kwargs)

    def _traced(self, stage: int) -> Callable[..., Any] | None:
        """What torch.compile of the whole model traces; None: nothing of the program."""
        of_stage = self.stages[stage - 1]
        if not self._can_do_without(self.program):
            return None
        if not self.program.plain[stage]:
            return traced_by_compile(of_stage, self._way(self.program, stage))
        return all_in_turn(of_stage)

    def _way(self, program: Program, stage: int) -> Way | None:
        option = program.option_of(stage)
        return self.stages[stage - 1].ways[option - 1] if option else None

    def _forget(self, output: weakref.ref[Tensor]) -> None:
        # The model has dropped all outputs and will not call the next layer: it has raised.
        if all(other() is None for other in self._outputs):
            self._pass = None

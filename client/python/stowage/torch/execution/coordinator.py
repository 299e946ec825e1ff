"""Runs a program in the place of the layers' own forwards."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from stowage.torch.execution.alone import run_alone
from stowage.torch.execution.executor import Pass
from stowage.torch.execution.other_sizes import OtherSizes
from stowage.torch.execution.program import Program
from stowage.torch.layers.installation import Installation
from stowage.torch.layers.stage import Stage
from stowage.torch.layers.structure import tensors_of
from stowage.torch.layers.switches import checkpoints_itself, warn_of_checkpointing
from stowage.torch.layers.traced import all_in_turn, traced_by_compile
from stowage.torch.tensors.kept_results import Way
from stowage.torch.tensors.transfers import Transfers


class Coordinator:
    """Starts a pass at each forward of the first layer, and hands it the layers' calls.

    One thread at a time. Several passes may be under way: each lives as long as the graph of the
    caller's output, so that a forward without a backward, or one that raised, leaves nothing.
    Between two layers it lives as long as any output of the first.

    With `alone`, programs that replay layers in turn are run layer by layer instead, without a
    pass.
    """

    is_chain = True

    def __init__(
        self,
        stages: Sequence[Stage],
        program: Program,
        transfers: Transfers,
        chain_slots: Sequence[int],
        other_sizes: OtherSizes | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.stages = tuple(stages)
        self.program = program
        self._alone = alone
        # Of the step, where it is run without a pass.
        self._without_pass: Program | None = program if self._can_do_without(program) else None
        self.other_sizes = other_sizes  # None: it has one plan
        self._transfers = transfers
        self._chain_slots = tuple(chain_slots)
        self._pass: Pass | None = None
        self._outputs: list[weakref.ref[Tensor]] = []  # of the layer called last
        self._installed: Installation | None = None
        self._checkpointing = _Checkpointing(self.stages[0])

    def install(self) -> None:
        self._installed = Installation(self.stages, self._call, self._traced)

    def remove(self) -> None:
        self._pass = None
        if self._installed is not None:
            self._installed.remove()
            self._installed = None

    def _call(self, stage: int, args: Any, kwargs: Any) -> Any:
        if stage == 1:
            self._checkpointing.warn_once()
            program, observed = self.program, None
            if self.other_sizes is not None:
                program, observed = self.other_sizes.program_for(args, kwargs)
            is_without = self._can_do_without(program) and observed is None
            self._without_pass = program if is_without else None
            if not is_without:
                self._pass = Pass(self.stages, program, self._transfers, observed)
        if self._without_pass is not None:
            self._pass = None
            return _run_or_keep(self.stages[stage - 1], self._without_pass, stage, args, kwargs)
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

    def _can_do_without(self, program: Program) -> bool:
        return program.is_plain or (self._alone and program.in_turn)

    def _traced(self, stage: int) -> Callable[..., Any] | None:
        """What torch.compile of the whole model traces; None: nothing of the program."""
        if not self._can_do_without(self.program):
            return None
        return _traced_alone(self.stages[stage - 1], self.program, stage)

    def _forget(self, output: weakref.ref[Tensor]) -> None:
        # The model has dropped all outputs and will not call the next layer: it has raised.
        if all(other() is None for other in self._outputs):
            self._pass = None


class SeparateLayers:
    """Runs layers that are kept, kept in part, or replayed apart from each other, in any order.

    A layer that is called with more elements than `elements` says of it is replayed whatever the
    program says, since a step with larger inputs takes more memory.
    """

    is_chain = False
    other_sizes: OtherSizes | None = None  # it has one plan

    def __init__(
        self,
        model: nn.Module,
        stages: Sequence[Stage],
        program: Program,
        elements: Sequence[int],
        may_replay: Sequence[bool],
    ) -> None:
        """Requires: program.in_turn or program.is_plain. By stage: whether it may run again."""
        self.stages = tuple(stages)
        self.program = program
        self._model = model
        self._elements = tuple(elements)
        self._may_replay = tuple(may_replay)
        self._installed: list[Installation] = []
        self._depth = 0  # of the model's calls
        self._checkpointing = _Checkpointing(self.stages[0])

    def install(self) -> None:
        of_layers = Installation(self.stages, self._call, self._traced)
        self._installed = [of_layers]
        if len({stage.modules[0] for stage in self.stages}) < len(self.stages):
            of_model = Stage("", [self._model])

            def begin(number: int, args: Any, kwargs: Any) -> Any:
                if self._depth == 0:  # a model may call itself
                    of_layers.begin()
                self._depth += 1
                try:
                    return of_model.run(args, kwargs)
                finally:
                    self._depth -= 1

            self._installed.append(Installation([of_model], begin, lambda _: all_in_turn(of_model)))

    def remove(self) -> None:
        for installed in reversed(self._installed):
            installed.remove()
        self._installed = []

    def _call(self, stage: int, args: Any, kwargs: Any) -> Any:
        self._checkpointing.warn_once()
        of_stage = self.stages[stage - 1]
        elements = sum(tensor.numel() for tensor in tensors_of((args, kwargs)))
        if elements > self._elements[stage - 1] and self._may_replay[stage - 1]:
            return run_alone(of_stage, None, args, kwargs)
        return _run_or_keep(of_stage, self.program, stage, args, kwargs)

    def _traced(self, stage: int) -> Callable[..., Any] | None:
        return _traced_alone(self.stages[stage - 1], self.program, stage)


@dataclass(slots=True)
class _Checkpointing:
    """Of a trainer that has switched the layers' own checkpointing on since."""

    first: Stage
    has_warned: bool = False

    def warn_once(self) -> None:
        if not self.has_warned and any(map(checkpoints_itself, self.first.modules)):
            self.has_warned = True
            warn_of_checkpointing(self.first.name)


def _run_or_keep(stage: Stage, program: Program, number: int, args: Any, kwargs: Any) -> Any:
    """The layer's output, where it is replayed right before its own backward or not at all."""
    if program.plain[number]:
        return stage.run(args, kwargs)
    return run_alone(stage, _way(stage, program, number), args, kwargs)


def _traced_alone(stage: Stage, program: Program, number: int) -> Callable[..., Any]:
    """The same for torch.compile of the whole model."""
    if program.plain[number]:
        return all_in_turn(stage)
    return traced_by_compile(stage, _way(stage, program, number))


def _way(stage: Stage, program: Program, number: int) -> Way | None:
    option = program.option_of(number)
    return stage.ways[option - 1] if option else None

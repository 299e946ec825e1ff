"""Runs one step of a program inside the model's own autograd graph.

The layers' first forwards are those of plain training, so that hooks, DDP, accumulation and
clipping see what they always see. What autograd saves of a layer becomes a handle. A `Pass` holds
the chain's values and a pointer into the program: the first forward of a layer runs the program up
to it; the first handle of a layer that the backward asks for, up to ``BACKWARD l``, with replays,
copies and releases on the way. A layer's backward is over when another layer's handle is asked for,
or all of its own were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from stowage.torch.execution.program import Program, Step
from stowage.torch.layers.discover import refuse_caches
from stowage.torch.layers.stage import Call, Stage, input_slots
from stowage.torch.layers.structure import take_tensors, tensors_of
from stowage.torch.tensors.kept_results import KeptResults, Way
from stowage.torch.tensors.saved_tensors import FirstRun
from stowage.torch.tensors.storages import InputView, Saved, is_alias, tensor_of
from stowage.torch.tensors.transfers import Transfers
from stowage.torch.tensors.values import Value


class Observed(NamedTuple):
    """Bytes of a stage's output, and of all that its forward left for its backward."""

    output: int
    saved: int
    option: int  # by which the stage was saved


class Pass:
    """One forward and backward of the chain. Holds the values; dies with the caller's graph.

    Holds no tensor of that graph, which has the handles, and they the pass.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        program: Program,
        transfers: Transfers,
        observed: Callable[[Sequence[Observed]], None] | None = None,
    ) -> None:
        self._stages = stages
        self._program = program
        self._transfers = transfers
        self._next = 0  # the operation to run next
        self._values: list[Value | None] = [None] * (program.length + 1)
        self._calls: list[Call | None] = [None] * (program.length + 1)
        # The last output handed to the caller: by id, its index.
        self._returned: dict[int, int] = {}
        self._current = 0  # the stage whose backward runs; 0: none
        self._saved: list[Saved] = []  # what that has yet to read, by handle
        self._left = 0  # so many
        self._observed = observed  # told of all stages' values, where the program observes
        self._sizes = [Observed(0, 0, 0)] * program.length
        self.called = 0  # the last stage whose forward was called

    def call(self, stage: int, args: Any, kwargs: Any, chain_slots: Sequence[int]) -> Any:
        """The layer's output for these arguments, in the caller's graph.

        `chain_slots` says which tensors of the first layer's arguments are the chain's input.
        """
        program = self._program
        refuse_caches(self._stages[stage - 1].name, args, kwargs)
        tensors: list[Any] = []
        template = take_tensors((args, kwargs), tensors)
        chain = self._chain_inputs(stage, tensors, chain_slots)
        self.called = stage
        if stage == 1 and not program.plain[1]:
            inputs = {index: tensors[slot].detach() for slot, index in chain}
            self._values[0] = Value.of([inputs[index] for index in range(len(inputs))])
        first = program.first_forward[stage]
        self._run_to(first - 1)
        self._next = first + 1
        saved: list[Saved] | None = None
        kept: KeptResults | None = None
        if program.plain[stage]:
            returned = self._stages[stage - 1].run(args, kwargs)
        else:
            returned, saved, kept = self._run_first(stage, template, tensors, chain, args, kwargs)
        outputs = tensors_of(returned)
        self._returned = {id(output): index for index, output in enumerate(outputs)}
        if not program.plain[stage] or (stage < program.length and not program.plain[stage + 1]):
            value = Value.of([output.detach() for output in outputs], saved, kept)
            self._values[stage] = value
            if saved is not None:
                self._observe(stage, value)
        if program.operations[first][0] == Step.DISCARD:
            self._values[stage - 1] = None
        if stage == program.length:
            self._run_to(program.before_loss)
        return returned

    def _run_first(
        self,
        number: int,
        template: Any,
        tensors: list[Any],
        chain: list[tuple[int, int]],
        args: Any,
        kwargs: Any,
    ) -> tuple[Any, list[Saved] | None, KeptResults | None]:
        """What the layer returns, and what it saved where the program keeps that."""
        stage = self._stages[number - 1]
        saves = self._program.operations[self._next - 1][0] == Step.SAVE
        if not self._program.runs_again[number]:
            hooks = FirstRun(self, number, stage.name, tensors, chain, saves=saves)
            with hooks:
                returned = stage.run(args, kwargs)
            return returned, hooks.take_saved(), None
        first = stage.run_first(
            self,
            number,
            template,
            tensors,
            chain,
            args,
            kwargs,
            saves=saves,
            way=self._way_of(number),
        )
        self._calls[number] = first.call
        return first.returned, first.saved, first.kept

    def _way_of(self, number: int) -> Way | None:
        """How the operation before the next one saves the stage; None: all, or nothing."""
        option = self._program.save_options[self._next - 1]
        return self._stages[number - 1].ways[option - 1] if option else None

    def _chain_inputs(
        self, stage: int, tensors: list[Any], chain_slots: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Slots of the chain's value among the arguments, and the indices in the value."""
        if stage == 1:
            numbers: dict[int, int] = {}
            return [
                (slot, numbers.setdefault(id(tensors[slot]), len(numbers)))
                for slot in input_slots(tensors, chain_slots)
            ]
        before = self._values[stage - 1]
        if self._stages[stage - 1].is_sharded:
            chain = _aliases(tensors, before)
            if chain or self._program.plain[stage]:
                return chain
        returned = self._returned
        chain = [
            (slot, returned[id(tensor)])
            for slot, tensor in enumerate(tensors)
            if id(tensor) in returned
        ]
        # An id can be that of another tensor, once the output is gone.
        is_same = bool(chain)
        if chain and before is not None and before.tensors is not None:
            is_same = all(
                tensors[slot].data_ptr() == before.tensors[index].data_ptr()
                for slot, index in chain
            )
        if not is_same:
            raise RuntimeError(
                f"{self._stages[stage - 1].name} was not called with the output of "
                f"{self._stages[stage - 2].name}, as it was when stowage.fit saw the model: the "
                "model changes between them. Call stowage.unfit(model), or fit it again"
            )
        return chain

    def take(self, stage: int, number: int) -> Tensor:
        """The saved tensor that a handle of the caller's graph stands for; once."""
        if stage != self._current:
            self._begin_backward(stage)
        saved = self._saved[number]
        if saved is None:
            self._refuse_second(stage)
        self._saved[number] = None
        inputs = self._inputs_of(stage) if isinstance(saved, InputView) else ()
        tensor = tensor_of(saved, inputs, self._stages[stage - 1].name)
        self._left -= 1
        if self._left == 0:
            self._end_backward(stage)
        return tensor

    def _begin_backward(self, stage: int) -> None:
        """Runs the program up to the stage's backward."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"a backward through {self._stages[stage - 1].name} records a graph of its own, "
                "and under a schedule what that would need is gone: call stowage.unfit(model) to "
                "use create_graph and gradients of gradients"
            )
        if self._current:
            self._end_backward(self._current)
        end = self._program.backward[stage]
        if self._next > end:
            self._refuse_second(stage)
        self._current, self._saved = stage, []
        try:
            self._run_to(end)
        except BaseException:
            self._next, self._current = len(self._program.operations), 0
            self._values = [None] * len(self._values)
            self._calls = [None] * len(self._calls)
            raise

    def _refuse_second(self, stage: int) -> NoReturn:
        raise RuntimeError(
            f"the backward of {self._stages[stage - 1].name} runs a second time, and under a "
            "schedule what it needs is gone. Call stowage.unfit(model) to use retain_graph"
        )

    def _inputs_of(self, stage: int) -> Sequence[Tensor]:
        value = self._values[stage - 1]
        if value is None:
            raise RuntimeError("a layer's input is read that the schedule has dropped")
        if value.overwritten():
            name = self._stages[stage - 1].name
            raise RuntimeError(
                f"the input of {name} was changed in place after {name} had read it, and what "
                "needs it is yet to run: change a copy, or call stowage.unfit(model)"
            )
        return value.outputs()

    def _run_to(self, end: int) -> None:
        operations = self._program.operations
        while self._next <= end:
            step, stage = operations[self._next]
            self._next += 1
            if stage > self.called:
                continue  # the model has left its layers early
            if step <= Step.DISCARD:
                self._run_again(step, stage)
            elif step == Step.BACKWARD:
                self._run_backward(stage)
            else:
                self._transfer(step, stage)

    def _run_again(self, step: Step, number: int) -> None:
        stage, call = self._stages[number - 1], self._calls[number]
        assert call is not None
        inputs = self._inputs_of(number)
        saves = step == Step.SAVE
        stops = self._program.ends_early[self._next - 1]
        value = stage.run_again(call, inputs, saves=saves, stops=stops, way=self._way_of(number))
        self._values[number] = value
        if saves:
            self._observe(number, value)
        if step == Step.DISCARD:
            self._values[number - 1] = None

    def _run_backward(self, number: int) -> None:
        value, call = self._values[number], self._calls[number]
        self._values[number] = self._calls[number] = None
        if number != self._current:  # no loss depends on it, or it is the caller's own
            self._end_backward(number)
            return
        before = self._values[number - 1]
        assert value is not None
        assert value.saved is not None
        if before is not None:
            before.wait()
        value.wait()
        # Nothing else holds what was saved, which is freed piece by piece.
        if value.kept is None:
            self._saved = value.saved
        else:
            assert call is not None
            self._saved = self._stages[number - 1].rerun(call, self._inputs_of(number), value)
        self._left = len(self._saved)

    def _end_backward(self, number: int) -> None:
        before = self._values[number - 1]
        if before is not None and before.saved is None:
            self._values[number - 1] = None

    def _transfer(self, step: Step, number: int) -> None:
        value = self._values[number]
        assert value is not None
        value.hold_as_blocks(self._stages[number - 1].kept_storages)
        blocks = value.travelers()
        if step == Step.OFFLOAD:
            value.wait()
            self._transfers.offload(blocks)
        elif step == Step.RELEASE:
            self._transfers.release(blocks)
        else:
            value.arrives = self._transfers.prefetch(blocks)

    def _observe(self, number: int, value: Value) -> None:
        """Tells the bytes of all values once those of the last one are known."""
        if self._observed is None:
            return
        value.hold_as_blocks(self._stages[number - 1].kept_storages)
        option = self._program.save_options[self._next - 1]
        self._sizes[number - 1] = Observed(value.outputs_bytes(), value.bytes(), option)
        if all(size.saved for size in self._sizes):
            self._observed(self._sizes)
            self._observed = None


def _aliases(tensors: Sequence[Tensor], value: Value | None) -> list[tuple[int, int]]:
    """Slots of the tensors that are outputs of the value, and the indices of these."""
    outputs = value.outputs() if value is not None else []
    found = (
        (slot, next((i for i, output in enumerate(outputs) if is_alias(tensor, output)), -1))
        for slot, tensor in enumerate(tensors)
    )
    return [(slot, index) for slot, index in found if index >= 0]

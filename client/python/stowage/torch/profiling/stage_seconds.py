"""Measures how long the layers of a model take, where the model calls them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from stowage.torch.layers.stage import Call
from stowage.torch.measuring.walk import Arguments, Walk
from stowage.torch.tensors.saved_tensors import Note, OtherRunError

_T = TypeVar("_T")
# Of a forward and of a backward, the begin and the end.
Marks = tuple[Any, Any, Any, Any]


class Seconds(Walk):
    """How long the stages take: medians over several walks, after one that is not counted.

    There are fewer where they take long. All kernels have run before.
    """

    def __init__(self, repeats: int, replays: Sequence[Sequence[Note] | None], *walk: Any) -> None:
        """`replays` are by stage: notes of what a replay that ends early saves; None: none does."""
        super().__init__(*walk)
        self._repeats = repeats
        self._replays = list(replays)
        self._marks: list[list[Marks]] = [[] for _ in self.stages]
        self._marks_of_replays: list[list[tuple[Any, Any]]] = [[] for _ in self.stages]
        self._clock = self.work.clock()
        self._head_begins: Any = None

    @property
    def of_stages(self) -> list[tuple[float, float]]:
        return [self._medians(marks) for marks in self._marks]

    @property
    def of_replays(self) -> list[float | None]:
        """By stage; None: no replay ends early."""
        return [
            None
            if notes is None
            else statistics.median(
                self._clock.seconds(begin, end) for begin, end in _counted(marks)
            )
            for notes, marks in zip(self._replays, self._marks_of_replays, strict=True)
        ]

    def measure(self) -> None:
        losses: list[Marks] = []
        begin = time.perf_counter()
        while len(losses) <= self._repeats and (
            not losses or not self.work.is_enough(time.perf_counter() - begin)
        ):
            loss = self.work.loss(self.walk())
            middle = self._clock.now()
            self.backward(loss)
            losses.append((self._head_begins, middle, middle, self._clock.now()))
        self.loss = self._medians(losses)

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        replay, device = arguments.stage.replay, self.work.device
        notes = self._replays[number - 1]
        if notes is not None:
            snapshot = replay.before(() if device.type == "cpu" else (device,), ())
        begin = self._clock.now()
        outputs, leaves = arguments.run(gradients=True)
        middle = self._clock.now()
        if notes is not None:
            replay.after(snapshot)
        roots = [output for output in outputs if output.requires_grad]
        inputs = [*leaves, *arguments.stage.parameters()]
        backward_begins = end = middle
        if roots:
            gradients = [torch.ones_like(root) for root in roots]
            backward_begins = self._clock.now()
            torch.autograd.grad(roots, inputs, gradients, allow_unused=True)
            end = self._clock.now()
        self._marks[number - 1].append((begin, middle, backward_begins, end))
        if notes is not None:
            self._measure_replay(number, arguments, arguments.call(snapshot, notes))
        self._head_begins = self._clock.now()
        return outputs

    def _measure_replay(self, number: int, arguments: Arguments, call: Call) -> None:
        inputs = [tensor.detach() for tensor in arguments.values]
        begin = self._clock.now()
        try:
            arguments.stage.run_again(call, inputs, saves=True, stops=True)
        except OtherRunError:  # as of a layer that skips its work at random
            if self.work.ranks.in_layers:  # the others go on
                raise
            self._replays[number - 1] = None
        self._marks_of_replays[number - 1].append((begin, self._clock.now()))

    def _medians(self, runs: Sequence[Marks]) -> tuple[float, float]:
        """Of forward and backward."""
        seconds = self._clock.seconds
        return (
            statistics.median(seconds(begin, end) for begin, end, _, _ in _counted(runs)),
            statistics.median(seconds(begin, end) for _, _, begin, end in _counted(runs)),
        )


def _counted(runs: Sequence[_T]) -> Sequence[_T]:
    """Without the first, where there are others."""
    return runs[1:] or runs

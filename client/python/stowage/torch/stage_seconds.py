"""Measures how long the layers of a model take, where the model calls them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from stowage.torch.walk import Arguments, Walk
from stowage.torch.workload import Clock

# Of a forward and of a backward, the begin and the end.
Marks = tuple[Any, Any, Any, Any]


class Seconds(Walk):
    """How long the stages take: medians over several walks, after one that is not counted."""

    def __init__(self, repeats: int, *walk: Any) -> None:
        super().__init__(*walk)
        self._repeats = repeats
        self._marks: list[list[Marks]] = [[] for _ in self.stages]
        self._clock = Clock(self.work.device)
        self._head_begins: Any = None

    @property
    def of_stages(self) -> list[tuple[float, float]]:
        return [self._medians(marks) for marks in self._marks]

    def measure(self) -> None:
        losses: list[Marks] = []
        for _ in range(self._repeats + 1):
            loss = self.work.loss(self.walk())
            middle = self._clock.now()
            self.backward(loss)
            losses.append((self._head_begins, middle, middle, self._clock.now()))
        self.loss = self._medians(losses)

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        begin = self._clock.now()
        outputs, leaves = arguments.run(gradients=True)
        middle = self._clock.now()
        roots = [output for output in outputs if output.requires_grad]
        inputs = [*leaves, *arguments.stage.parameters()]
        backward_begins = end = middle
        if roots:
            gradients = [torch.ones_like(root) for root in roots]
            backward_begins = self._clock.now()
            torch.autograd.grad(roots, inputs, gradients, allow_unused=True)
            end = self._clock.now()
        self._marks[number - 1].append((begin, middle, backward_begins, end))
        self._head_begins = self._clock.now()
        return outputs

    def _medians(self, runs: Sequence[Marks]) -> tuple[float, float]:
        """Of forward and backward, but for the first run."""
        seconds = self._clock.seconds
        return (
            statistics.median(seconds(begin, end) for begin, end, _, _ in runs[1:]),
            statistics.median(seconds(begin, end) for _, _, begin, end in runs[1:]),
        )

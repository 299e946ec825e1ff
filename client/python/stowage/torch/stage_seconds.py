"""Measures how long the layers of a model take, where the model calls them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from stowage.errors import NotAChainError
from stowage.torch.graph_leaves import leaves_of
from stowage.torch.walk import Arguments, Walk
from stowage.torch.workload import backward, synchronize


class Seconds(Walk):
    """How long the stages take: medians over several walks, after one that is not counted."""

    def __init__(self, repeats: int, *walk: Any) -> None:
        super().__init__(*walk)
        self._repeats = repeats
        self._times: list[list[tuple[float, float]]] = [[] for _ in self.stages]
        self._inputs: list[list[Tensor]] = [[] for _ in self.stages]  # of the last walk
        self._head_begins = 0.0

    @property
    def of_stages(self) -> list[tuple[float, float]]:
        return [_medians(times) for times in self._times]

    def measure(self) -> None:
        losses: list[tuple[float, float]] = []
        for _ in range(self._repeats + 1):
            loss = self.work.loss(self.walk())
            middle = self._now()
            self._backward(loss)
            losses.append((middle - self._head_begins, self._now() - middle))
        self.loss = _medians(losses)

    def _backward(self, loss: Tensor) -> None:
        try:
            backward(loss)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # The layers' graphs have been freed, and the loss's leads into one of them.
            reached = {id(leaf) for leaf in leaves_of([loss])}
            for stage, inputs in zip(self.stages, self._inputs, strict=True):
                if not reached.isdisjoint(id(tensor) for tensor in inputs):
                    raise NotAChainError(
                        f"the loss depends on a tensor that leaves {stage.name} by another way "
                        "than its return value's tensors (an object, an attribute, a list): make "
                        "the layer return it in a tuple or dict, or leave the layer out, with "
                        "layers="
                    ) from error
            raise

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        begin = self._now()
        outputs, leaves = arguments.run(gradients=True)
        middle = self._now()
        roots = [output for output in outputs if output.requires_grad]
        inputs = [*leaves, *arguments.stage.parameters()]
        self._inputs[number - 1] = inputs
        end = middle
        if roots:
            gradients = [torch.ones_like(root) for root in roots]
            middle_of_backward = self._now()
            torch.autograd.grad(roots, inputs, gradients, allow_unused=True)
            end = middle + self._now() - middle_of_backward
        self._times[number - 1].append((middle - begin, end - middle))
        self._head_begins = self._now()
        return outputs

    def _now(self) -> float:
        synchronize(self.work.device)
        return time.perf_counter()


def _medians(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of forward and backward, but for the first run."""
    return (
        statistics.median(forward for forward, _ in times[1:]),
        statistics.median(backward for _, backward in times[1:]),
    )

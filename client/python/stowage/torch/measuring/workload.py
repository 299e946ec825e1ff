"""A step of training that is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stowage.torch.distributed.ranks import Ranks
from stowage.torch.measuring.meter import MemoryMeter

# What is measured several times to be sure is not measured again after so long.
_ENOUGH_SECONDS = 0.5
_STEPS = 3

# Told of what is done: a text, and the part that is done.
Progress = Callable[[str, float], None]


@dataclass(slots=True)
class Workload:
    """A step of training: the model's forward on a sample, and a loss of its output."""

    forward: Callable[[], Any]
    loss: Callable[[Any], Tensor]
    device: torch.device
    sample: list[Tensor] = field(default_factory=list)  # the tensors in it
    # What a backward gives gradients, such as a loss's own parameters.
    leaves: list[Tensor] = field(default_factory=list)
    # The parameters that a step writes by itself, as one that normalizes them; empty until it is
    # known.
    written: list[Tensor] = field(default_factory=list)
    is_known: bool = False
    ranks: Ranks = field(default_factory=Ranks)  # which run the same steps

    def is_enough(self, seconds: float) -> bool:
        """Whether what has been measured for so long is not measured once more: in all ranks."""
        return self.ranks.any_of(seconds >= _ENOUGH_SECONDS)

    def meter(self) -> MemoryMeter:
        return MemoryMeter(self.device)

    def clock(self) -> Clock:
        return Clock(self.device)


def backward(loss: Tensor) -> None:
    # As where each step's autocast ends before its backward: what it has cast is the step's.
    torch.clear_autocast_cache()
    torch.autograd.backward([loss])


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Times of a device's work. On a GPU nothing waits for it until the seconds are asked for, so
    that the host runs ahead as in training.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> Any:
        """A mark: of all work that has been given to the device so far."""
        if self._device.type != "cuda":
            return time.perf_counter()
        mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call, unused-ignore]
        mark.record(torch.cuda.current_stream(self._device))
        return mark

    def idle(self) -> Any:
        """A mark of the host, once the device has done all its work."""
        synchronize(self._device)
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        if isinstance(begin, float):
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


class MeteredStep(NamedTuple):
    """One step; its peak is in bytes beyond what is in use before it."""

    loss: float
    peak: int
    seconds: float  # on a CPU some percent more than without a meter


def metered_step(work: Workload) -> MeteredStep:
    with work.meter() as meter, meter.span("step"):
        synchronize(work.device)
        begin = time.perf_counter()
        loss = work.loss(work.forward())
        backward(loss)
        synchronize(work.device)
        seconds = time.perf_counter() - begin
    span = meter.spans["step"]
    return MeteredStep(float(loss.detach()), span.peak - span.before, seconds)


def seconds_of_step(work: Workload) -> float:
    """The median of some steps; of one where it is long."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < _STEPS and not work.is_enough(sum(seconds))):
        synchronize(work.device)
        begin = time.perf_counter()
        backward(work.loss(work.forward()))
        synchronize(work.device)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)

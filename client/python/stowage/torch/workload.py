"""A step of training that is measured, and the model as it was before."""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from stowage.torch.meter import MemoryMeter
from stowage.torch.replay import RandomStates, same_content

# Told of what is done: a text, and the part that is done.
Progress = Callable[[str, float], None]


@dataclass(slots=True)
class Workload:
    """A step of training: the model's forward on a sample, and a loss of its output."""

    forward: Callable[[], Any]
    loss: Callable[[Any], Tensor]
    device: torch.device


@contextlib.contextmanager
def same_state(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Undoes what steps inside do to generators and buffers."""
    states = RandomStates(() if device.type == "cpu" else (device,))
    of_python = random.getstate()
    numpy = sys.modules.get("numpy")  # whose generator matters where somebody has imported it
    of_numpy = None if numpy is None else numpy.random.get_state()
    buffers = [
        (part, name, buffer, buffer.detach().clone())
        for part in model.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for part, name, buffer, content in buffers:
                part._buffers[name] = buffer
                if not same_content(buffer, content):
                    buffer.copy_(content)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        random.setstate(of_python)
        states.restore()


@contextlib.contextmanager
def unchanged(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Undoes what steps inside do to generators, buffers and gradients.

    Inside, every parameter that needs one has a gradient, as in a step after the first, and hooks
    that use gradients once they are there, as optimizers do, are not called.
    """
    hooks = _accumulation_hooks(model)
    for registered, _ in hooks:
        registered.clear()
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in gradients:
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    try:
        with same_state(model, device):
            yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for registered, kept in hooks:
            registered.update(kept)


def _accumulation_hooks(model: nn.Module) -> list[tuple[Any, dict[Any, Any]]]:
    found = (getattr(p, "_post_accumulate_grad_hooks", None) for p in model.parameters())
    return [(hooks, dict(hooks)) for hooks in found if hooks]


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

    def seconds(self, begin: Any, end: Any) -> float:
        if self._device.type != "cuda":
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def measure_step(work: Workload) -> tuple[float, int]:
    """Seconds and highest memory of a step, beyond what is in use before it."""
    with MemoryMeter(work.device) as meter, meter.span("step"):
        backward(work.loss(work.forward()))
    span = meter.spans["step"]
    seconds = []
    for _ in range(3):
        synchronize(work.device)
        begin = time.perf_counter()
        backward(work.loss(work.forward()))
        synchronize(work.device)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), span.peak - span.before

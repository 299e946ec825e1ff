"""A double of CUDA's streams on a CPU: work is queued, and runs late, in any order that is allowed.

What lacks a wait reads what is not there yet, or writes over what is still read.
"""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Event:
    def __init__(self) -> None:
        self.has_happened = False

    def query(self) -> bool:
        return self.has_happened


class Stream:
    def __init__(self, double: Double) -> None:
        self._double = double
        self.queue: deque[Event | Callable[[], None]] = deque()  # an event: waits for it
        double.streams.append(self)

    def wait_event(self, event: Event) -> None:
        self.queue.append(event)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def record_event(self) -> Event:
        event = Event()
        self.queue.append(lambda: setattr(event, "has_happened", True))
        return event

    def step(self) -> bool:
        """Runs the first of what is queued, where it can run."""
        if not self.queue:
            return False
        first = self.queue[0]
        if isinstance(first, Event) and not first.has_happened:
            return False
        self.queue.popleft()
        if not isinstance(first, Event):
            first()
        return True


class Double(TorchFunctionMode):
    """Inside, copies that do not block are queued on the current stream."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self.streams: list[Stream] = []
        self.freed: dict[int, list[Tensor]] = {}  # memory of the device, by size, to use again
        self.current = self.compute = Stream(self)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        is_pinned = kwargs.pop("pin_memory", False)
        if function is torch.empty and not is_pinned and self.freed.get(args[0]):
            return self.freed[args[0]].pop()
        if function is Tensor.copy_ and kwargs.pop("non_blocking", False):
            to, source = args
            self.current.queue.append(lambda: to.copy_(source))
            return to
        return function(*args, **kwargs)

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def run_some(self) -> None:
        for _ in range(self._chance.randrange(8)):
            self._chance.choice(self.streams).step()

    def run_all(self) -> None:
        while any(stream.step() for stream in self._chance.sample(self.streams, 3)):
            pass
        assert not any(stream.queue for stream in self.streams)


def put_in_place(patch: pytest.MonkeyPatch, seed: int) -> Double:
    double = Double(seed)
    patch.setattr(torch.cuda, "Stream", lambda device: Stream(double))
    patch.setattr(torch.cuda, "stream", double.on)
    patch.setattr(torch.cuda, "current_stream", lambda device: double.current)
    return double

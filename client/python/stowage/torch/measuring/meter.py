"""Measures device memory: by every allocation on a CPU, by the allocator's counters on a GPU."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import threading
import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Span:
    """Memory during a part of a program, in bytes above what was in use when the meter started."""

    before: int
    peak: int
    after: int


class MemoryMeter:
    """Measures the spans of one program. The figures are there once the meter has closed.

    On a CPU torch's profiler tells of each allocation, which takes time: times that are measured
    meanwhile are too long.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.spans: dict[str, Span] = {}
        self._profiler: Any = None
        self._base = 0
        self._without_collecting = contextlib.ExitStack()

    def __enter__(self) -> MemoryMeter:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self._base = torch.cuda.memory_allocated(self._device)
        else:
            _wait_for_collectives()
            # The profiler counts what is freed of an earlier meter's: garbage that was collected
            # from one span to the next would lower all that follow.
            self._without_collecting.enter_context(without_collecting())
            # Otherwise the profiler logs that there is no GPU.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
            self._profiler = torch.autograd.profiler.profile(profile_memory=True)
            self._profiler.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._profiler is None:
            return
        _wait_for_collectives()
        self._without_collecting.close()
        self._profiler.__exit__(*error)
        if error[0] is None:
            self.spans = _spans_of(self._profiler.kineto_results.events())
        self._profiler = None

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Measures what runs inside. Names are unique; on a GPU spans may not nest."""
        if self._profiler is not None:
            with without_collecting(), torch.profiler.record_function(_MARK + name):
                yield
            return
        before = torch.cuda.memory_allocated(self._device) - self._base
        torch.cuda.reset_peak_memory_stats(self._device)
        with without_collecting():
            yield
        self.spans[name] = Span(
            before,
            torch.cuda.max_memory_allocated(self._device) - self._base,
            torch.cuda.memory_allocated(self._device) - self._base,
        )


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Garbage that was freed inside would hide as much of what the program takes."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


_MARK = "stowage:"

_MAX_WAIT_SECONDS = 0.1


def _wait_for_collectives() -> None:
    """Waits until threads of collectives have let go of what they sent.

    They report to the profiler of the thread that called them, and would still do so, without a
    lock, while it reads what it has recorded.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    end = clock.monotonic() + _MAX_WAIT_SECONDS
    while _others_run() and clock.monotonic() < end:
        clock.sleep(0.0002)


def _others_run() -> bool:
    """Whether another thread of this process runs, or could; False where the system doesn't say."""
    own = str(threading.get_native_id())
    try:
        threads = [path for path in pathlib.Path("/proc/self/task").iterdir() if path.name != own]
        return any(_state(path) == "R" for path in threads)
    except OSError:
        return False


def _state(thread: pathlib.Path) -> str:
    try:
        text = (thread / "stat").read_text()
    except OSError:  # it has ended
        return ""
    return text.rpartition(") ")[2][:1]


def _spans_of(events: Any) -> dict[str, Span]:
    changes: list[tuple[int, int]] = []
    marks: list[tuple[str, int, int]] = []
    for event in events:
        name = event.name()
        if name == "[memory]":
            changes.append((event.start_ns(), event.nbytes()))
        elif name.startswith(_MARK):
            begin = event.start_ns()
            marks.append((name.removeprefix(_MARK), begin, begin + event.duration_ns()))
    changes.sort(key=lambda change: change[0])
    return {name: _span(changes, begin, end) for name, begin, end in marks}


def _span(changes: list[tuple[int, int]], begin: int, end: int) -> Span:
    live = before = 0
    peak: int | None = None
    for time, change in changes:
        if time > end:
            break
        if time >= begin and peak is None:
            before = peak = live
        live += change
        if peak is not None:
            peak = max(peak, live)
    if peak is None:  # nothing was allocated inside
        before = peak = live
    return Span(before, peak, live)

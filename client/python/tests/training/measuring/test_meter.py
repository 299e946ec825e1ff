"""What a measurement of memory must not see."""

from __future__ import annotations

import gc

import pytest
import torch

from stowage.torch.measuring import meter
from stowage.torch.measuring.meter import MemoryMeter

CPU = torch.device("cpu")
_MEBIBYTE = 1 << 20


def _garbage() -> None:
    """A tensor in a cycle that nobody holds."""
    cycle: list[object] = [torch.empty(_MEBIBYTE, dtype=torch.uint8)]
    cycle.append(cycle)


def _containers() -> list[list[int]]:
    """As many as have garbage collected, where that is on."""
    return [[number] for number in range(10 * gc.get_threshold()[0])]


def test_garbage_is_not_collected_inside_a_span() -> None:
    gc.collect()
    with MemoryMeter(CPU) as measured:
        _garbage()
        with measured.span("step"):
            made = torch.empty(2 * _MEBIBYTE, dtype=torch.uint8)
            containers = _containers()
    assert gc.isenabled()
    span = measured.spans["step"]
    assert (span.peak - span.before, span.after - span.before) == (made.nbytes, made.nbytes)
    del containers


def test_garbage_of_an_earlier_measurement_is_not_collected_between_spans() -> None:
    gc.collect()
    with MemoryMeter(CPU):
        _garbage()
    with MemoryMeter(CPU) as measured:
        with measured.span("one"):
            pass
        containers = _containers()
        with measured.span("two"):
            pass
    assert measured.spans["one"].before == measured.spans["two"].before == 0
    del containers


def test_the_profiler_is_read_once_no_other_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []

    def others_run() -> bool:
        looks.append(len(looks) % 3 < 2)  # twice they do
        return looks[-1]

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(meter, "_others_run", others_run)
    monkeypatch.setattr(meter, "_MAX_WAIT_SECONDS", float("inf"))
    with MemoryMeter(CPU):
        assert looks == [True, True, False]
    assert looks == [True, True, False] * 2

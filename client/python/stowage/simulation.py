"""What the simulator says of a schedule. Units: bytes and seconds; None means unset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stowage.answer import Explanation, Prediction
from stowage.serialization.codec import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry(Message):
    """When an operation runs, and the memory while it does.

    Attributes:
        start_seconds: From the start of the step.
        end_seconds: From the start of the step.
        memory_bytes: On the device while it runs, its overhead included.
        host_bytes: On the host while it runs.
    """

    start_seconds: float = 0.0
    end_seconds: float = 0.0
    memory_bytes: int = 0
    host_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Message):
    """What a schedule costs on a chain and a platform (SimulateResponse).

    Attributes:
        feasible: No operation is over a limit of the platform.
        first_over_limit: Index of the first operation that is; None when feasible.
        prediction: Also of a schedule that is not feasible.
        timeline: One entry an operation, in their order.
        explanation: Why it costs what it costs.
    """

    root: ClassVar[str] = "simulation"

    feasible: bool = False
    first_over_limit: int | None = None
    prediction: Prediction | None = None
    timeline: tuple[TimelineEntry, ...] = ()
    explanation: Explanation | None = None

"""What `Client.solve_stream` yields before the answer."""

from __future__ import annotations

from dataclasses import dataclass

from stowage.answer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """The request waits for a solver thread.

    Attributes:
        before: Solves that wait before this one.
    """

    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A solver runs.

    Attributes:
        solver: The requested one.
        fraction: Done, 0 to 1.
    """

    solver: str
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Improved:
    """A better schedule.

    Attributes:
        answer: The best so far.
    """

    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """The solve starts again, at another server or later; so do the events.

    Attributes:
        reason: Why the attempt before failed.
    """

    reason: str


Event = Queued | Running | Improved | Repeated | Answer
"""The last event of a stream is the Answer."""

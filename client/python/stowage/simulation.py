"""Replays schedules, and what the simulator says of them. Units: bytes and seconds; None: unset."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from stowage import native
from stowage.calls import CALLS, plain
from stowage.errors import InfeasibleError, invalid
from stowage.model import Chain, Platform, Schedule
from stowage.outcome import Explanation, Prediction
from stowage.serialization.message import Message

if TYPE_CHECKING:
    from stowage.answer import Answer


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


def simulate(
    chain: Chain,
    platform: Platform,
    schedule: Schedule,
    *,
    cancel: threading.Event | None = None,
) -> Simulation:
    """Replays a schedule: whether it is valid and fits, what it costs, when each operation runs.

    Args:
        chain: What the schedule is for.
        platform: The device and its limits; needs memory_bytes.
        schedule: At most 1,000,000 operations.
        cancel: Ends the call with CancelledError when it is set.
    Raises:
        InvalidRequestError: With every violated field, or with the first operation that is not
            valid, as in "operations[12] BACKWARD 4: value 3 is not on device: it was dropped".
    """
    request = plain(
        chain=(chain, Chain), platform=(platform, Platform), schedule=(schedule, Schedule)
    )
    with CALLS.call(cancel) as cancelled:
        return Simulation.from_dict(native.call("simulate", request, cancelled=cancelled))


def replay(answer: Answer, chain: Chain | None) -> tuple[Chain, Schedule, Simulation]:
    """The schedule of an answer, and when its operations run on a chain; None: on its own.

    Raises:
        InfeasibleError: There is no schedule.
        InvalidRequestError: There is no chain, or the schedule is not for it.
    """
    if answer.schedule is None or answer.platform is None:
        text = "this answer is INFEASIBLE and holds no schedule"
        raise InfeasibleError(text, answer.minimum_memory_bytes)
    chain = chain_of(answer, chain)
    return chain, answer.schedule, simulate(chain, answer.platform, answer.schedule)


def chain_of(answer: Answer, chain: Chain | None) -> Chain:
    """The chain that an answer was solved for: `chain`, or its own where that is None.

    Raises:
        InvalidRequestError: It has none.
    """
    chain = chain or answer.chain
    if chain is None:
        raise invalid("chain", "is missing: an answer from JSON does not have it; pass it")
    return chain

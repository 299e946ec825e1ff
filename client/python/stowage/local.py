"""Solves and simulates in this process, without a server, as `stowage solve --local` does.

The GIL is free while a solver runs. Ctrl-C ends a call within 100 ms, as does `cancel`.
"""

from __future__ import annotations

import atexit
import contextlib
import numbers
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stowage import native
from stowage.answer import Answer, Frontier, SolverDescription
from stowage.errors import (
    CancelledError,
    FieldViolation,
    InfeasibleError,
    InvalidRequestError,
    invalid,
)
from stowage.model import Chain, Platform, Schedule, SolveOptions
from stowage.serialization.codec import Message
from stowage.simulation import Simulation

Memory = int | str
"""Bytes, "12GiB", "1.5GB", or "40%": of the range from the memory floor (0 %) to storing
everything (100 %).
"""

_MAX_SECONDS = 1e6
_MAX_EXIT_SECONDS = 3.0


class _Calls:
    """The calls in progress, which end before the interpreter does.

    The threads of a call that a daemon thread has made would still work while the process destroys
    what they use.
    """

    def __init__(self) -> None:
        self._running: set[object] = set()
        self._ended = False
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._running.clear)  # their threads are the parent's

    @contextlib.contextmanager
    def call(self, cancel: threading.Event | None) -> Iterator[Callable[[], bool]]:
        """Of one call: yields what tells whether it is cancelled."""
        call = object()
        self._running.add(call)  # before it looks whether calls have ended: _end() may run between
        try:
            if self._ended:
                raise CancelledError("the call was cancelled: Python exits")
            yield lambda: self._ended or (cancel is not None and cancel.is_set())
        finally:
            self._running.discard(call)

    def _end(self) -> None:
        self._ended = True
        # Takes 100 ms. A callback that blocks is in Python's own code, which may be left there.
        end = time.monotonic() + _MAX_EXIT_SECONDS
        while self._running and time.monotonic() < end:
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C
                time.sleep(0.001)


CALLS = _Calls()


def solve(
    chain: Chain,
    platform: Platform | None = None,
    *,
    memory: Memory | None = None,
    solver: str = "auto",
    memory_slots: int = 0,
    segments: int = 0,
    time_precision: float = 0.0,
    report_rounding_loss: bool = False,
    time_budget: float | None = None,
    timeout: float | None = None,
    working_memory: Memory = "4GiB",
    progress: Callable[[str, float], object] | None = None,
    improved: Callable[[Answer], object] | None = None,
    cancel: threading.Event | None = None,
) -> Answer:
    """The best schedule that a solver finds for a chain within a memory budget.

    Args:
        chain: What is trained.
        platform: The device and its link to host memory; None: a device without a link.
        memory: The budget; None: platform.memory_bytes.
        solver: A name from `solvers()`.
        memory_slots: How finely a dynamic program divides memory; 0: the solver's default.
        segments: How many segments `periodic` cuts; 0: the best of all counts.
        time_precision: Relative grid that times are rounded to, 0 (exact) to 0.5.
        report_rounding_loss: Solve again with ten times the slots; see Answer.rounding_loss.
        time_budget: Seconds after which the best schedule so far is the answer, or the first one
            where there is none yet; None: no budget.
        timeout: Seconds after which the best schedule so far is the answer, or DeadlineError.
        working_memory: The most memory that the solver may take.
        progress: Called with the solver and the fraction done, on the calling thread.
        improved: Called with each better answer, on the calling thread.
        cancel: Ends the call with CancelledError when it is set; so does the exit of Python.
    Returns:
        The answer; an infeasible one says the least memory that is enough.
    Raises:
        InvalidRequestError: With every violated field.
        SolveMemoryError: The solver needs more than working_memory; names the slots that fit.
        DeadlineError: There is no schedule within the timeout.
    """
    options = SolveOptions(
        memory_slots=memory_slots,
        segments=segments,
        time_precision=time_precision,
        report_rounding_loss=report_rounding_loss,
        time_budget_seconds=0.0 if time_budget is None else time_budget,
    )
    request = {
        **_plain(
            chain=(chain, Chain),
            platform=(with_memory(chain, platform, memory), Platform),
            options=(options, SolveOptions),
        ),
        "solver": solver,
        "working_bytes": parse_bytes(working_memory, "working_memory"),
        "timeout_seconds": checked_timeout(timeout),
        "stream": improved is not None,
    }

    def read(values: dict[str, Any]) -> Answer:
        return replace(Answer.from_dict(values), chain=chain)

    events: dict[str, Callable[[Any], object]] = {}
    if progress is not None:
        events["progress"] = lambda event: progress(event["solver"], event["fraction"])
    if improved is not None:
        events["improved"] = lambda best: improved(read(best))
    with CALLS.call(cancel) as cancelled:
        return read(native.call("solve", request, cancelled=cancelled, events=events))


def frontier(
    chain: Chain,
    platform: Platform | None = None,
    *,
    points: int = 20,
    budgets: Sequence[Memory] | None = None,
    solver: str = "auto",
    memory_slots: int = 0,
    segments: int = 0,
    time_precision: float = 0.0,
    timeout: float | None = None,
    working_memory: Memory = "4GiB",
    cancel: threading.Event | None = None,
) -> Frontier:
    """The makespan for each of many budgets, from as few solves as the solver allows.

    Args:
        chain: What is trained.
        platform: As in `solve`; its memory_bytes has no effect.
        points: The number of budgets, 2 to 1000, from the least memory with which the solver has a
            schedule to what storing everything takes.
        budgets: Or these, in any order.
        solver: As in `solve`, as the arguments that follow.
        memory_slots: As in `solve`.
        segments: As in `solve`.
        time_precision: As in `solve`.
        timeout: Seconds after which the call fails.
        working_memory: As in `solve`.
        cancel: As in `solve`.
    Raises:
        InvalidRequestError: With every violated field.
        SolveMemoryError: As in `solve`.
        DeadlineError: After the timeout.
    """
    options = SolveOptions(
        memory_slots=memory_slots, segments=segments, time_precision=time_precision
    )
    request = {
        **_plain(
            chain=(chain, Chain),
            platform=(platform or Platform(), Platform),
            options=(options, SolveOptions),
        ),
        "solver": solver,
        "points": _points(points) if budgets is None else 0,
        "memory_bytes": budgets_of(chain, budgets),
        "working_bytes": parse_bytes(working_memory, "working_memory"),
        "timeout_seconds": checked_timeout(timeout),
    }
    with CALLS.call(cancel) as cancelled:
        found = native.call(
            "frontier", request, cancelled=cancelled, names={"memory_bytes": "budgets"}
        )
    return Frontier.from_dict(found)


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
    request = _plain(
        chain=(chain, Chain), platform=(platform, Platform), schedule=(schedule, Schedule)
    )
    with CALLS.call(cancel) as cancelled:
        return Simulation.from_dict(native.call("simulate", request, cancelled=cancelled))


def solvers() -> tuple[SolverDescription, ...]:
    """The solvers of this package, "auto" first."""
    return tuple(SolverDescription.from_dict(one) for one in native.call("catalog", {})["solvers"])


def memory_range(chain: Chain) -> tuple[int, int]:
    """The bytes below which no schedule of any solver exists (0 %), and those that storing
    everything takes (100 %).

    >>> layer = stowage.Stage(
    ...     forward_seconds=1, backward_seconds=2, output_bytes=10, saved_bytes=30
    ... )
    >>> stowage.memory_range(stowage.Chain(input_bytes=10, stages=(layer,) * 4))
    (60, 150)

    Raises:
        InvalidRequestError: With every violated field of the chain.
    """
    found = native.call("memory", _plain(chain=(chain, Chain)))
    return int(found["floor_bytes"]), int(found["most_bytes"])


def replay(answer: Answer, chain: Chain | None) -> tuple[Chain, Schedule, Simulation]:
    """The schedule of an answer, and when its operations run on a chain; None: on its own.

    Raises:
        InfeasibleError: There is no schedule.
        InvalidRequestError: There is no chain, or the schedule is not for it.
    """
    if answer.schedule is None or answer.platform is None:
        text = "this answer is INFEASIBLE and holds no schedule"
        raise InfeasibleError(text, answer.minimum_memory_bytes)
    chain = chain or answer.chain
    if chain is None:
        raise invalid("chain", "is missing: an answer from JSON does not have it; pass it")
    return chain, answer.schedule, simulate(chain, answer.platform, answer.schedule)


def with_memory(chain: Chain, platform: Platform | None, memory: Memory | None) -> Platform:
    """The platform with a budget, which may be a share of the chain's range."""
    if platform is None:
        platform = Platform()
    elif not isinstance(platform, Platform):
        raise invalid("platform", f"is a {type(platform).__name__}, not a Platform")
    if memory is None:
        if platform.memory_bytes is None:
            raise invalid(
                "memory", 'is missing; give the device memory for activations, as "12GiB"'
            )
        return platform
    return replace(platform, memory_bytes=budget_bytes(chain, memory, "memory"))


def budget_bytes(chain: Chain, memory: Memory, field: str) -> int:
    """The bytes of a budget."""
    if isinstance(memory, str) and memory.strip().endswith("%"):
        request = {**_plain(chain=(chain, Chain)), "budget": memory.strip()}
        return int(native.call("memory", request, names={"budget": field})["budget_bytes"])
    return parse_bytes(memory, field)


def budgets_of(chain: Chain, budgets: Sequence[Memory] | None) -> list[int]:
    """The bytes of each budget."""
    if isinstance(budgets, (str, int)):
        raise invalid("budgets", 'is one budget; give several, as in ["4GiB", "8GiB"]')
    return [budget_bytes(chain, one, f"budgets[{i}]") for i, one in enumerate(budgets or ())]


def _points(points: int) -> int:
    if isinstance(points, bool) or not hasattr(points, "__index__"):
        raise invalid("points", f"is {points!r}; it must be a whole number")
    return points.__index__()


def parse_bytes(size: Memory, field: str) -> int:
    """The bytes of a size. Errors name `field`."""
    if isinstance(size, str):
        return int(native.call("units", {"size": size}, names={"size": field})["bytes"])
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise invalid(field, f'{size!r} is not a size; write bytes, or e.g. "12GiB"')
    number = size.__index__()
    if not 0 <= number < 1 << 62:
        raise invalid(field, f"is {number}; it must be from 0 to below 2^62 bytes")
    return number


def _plain(**parts: tuple[object, type[Message]]) -> dict[str, Any]:
    """The messages of a request, each with its class, as JSON. Raises with all that is wrong."""
    plain: dict[str, Any] = {}
    violations: list[FieldViolation] = []
    for field, (message, wanted) in parts.items():
        if not isinstance(message, wanted):
            raise invalid(field, f"is a {type(message).__name__}, not a {wanted.__name__}")
        try:
            plain[field] = message.to_dict()
        except InvalidRequestError as error:
            violations += error.violations
    if violations:
        raise InvalidRequestError("; ".join(map(str, violations)), violations)
    return plain


def checked_timeout(timeout: float | None) -> float | None:
    """The seconds of a call; None: no limit."""
    if timeout is None:
        return None
    seconds = _seconds(timeout)
    if seconds is None or seconds <= 0:
        raise invalid("timeout", f"is {timeout!r}; it must be a number of seconds above 0, or None")
    return seconds


def checked_patience(patience: float) -> float:
    """The seconds for which servers are called again; negative: 0."""
    seconds = _seconds(patience)
    if seconds is None:
        raise invalid(
            "patience", f"is {patience!r}; it must be a number of seconds; 0 calls each server once"
        )
    return seconds


def _seconds(value: Any) -> float | None:
    """The number, from 0 to the most; None: it is none."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value != value:
        return None
    if value > _MAX_SECONDS:  # an int may be larger than any float
        return _MAX_SECONDS
    return float(value) if value > 0 else 0.0

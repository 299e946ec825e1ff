"""Solves in this process, without a server, as `stowage solve --local` does.

The GIL is free while a solver runs. Ctrl-C ends a call within 100 ms, as does `cancel`.
"""

from __future__ import annotations

import numbers
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stowage import native
from stowage.answer import Answer, Frontier, SolverDescription
from stowage.calls import CALLS, plain
from stowage.errors import invalid
from stowage.model import Chain, Platform, SolveOptions
from stowage.request import SolveRequest

Memory = int | str
"""Bytes, "12GiB", "1.5GB", or "40%": of the range from the memory floor (0 %) to storing
everything (100 %).
"""

_MAX_SECONDS = 1e6


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
        **plain(
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
        timeout: Seconds after which the call fails.
        solver, memory_slots, segments, time_precision, working_memory, cancel: As in `solve`.
    Raises:
        InvalidRequestError: With every violated field.
        SolveMemoryError: As in `solve`.
        DeadlineError: After the timeout.
    """
    options = SolveOptions(
        memory_slots=memory_slots, segments=segments, time_precision=time_precision
    )
    request = {
        **plain(
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
    found = native.call("memory", plain(chain=(chain, Chain)))
    return int(found["floor_bytes"]), int(found["most_bytes"])


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


def solve_request(
    chain: Chain,
    platform: Platform | None,
    memory: Memory | None,
    solver: str,
    options: SolveOptions | None,
) -> SolveRequest:
    """The request for the platform with a budget; see `with_memory`."""
    with_budget = with_memory(chain, platform, memory)
    return SolveRequest(chain=chain, platform=with_budget, solver=solver, options=options)


def budget_bytes(chain: Chain, memory: Memory, field: str) -> int:
    """The bytes of a budget."""
    if isinstance(memory, str) and memory.strip().endswith("%"):
        request = {**plain(chain=(chain, Chain)), "budget": memory.strip()}
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

"""Chooses how a plan is run: layer by layer, or by Stowage's executor.

Layer by layer each is replayed alone, right before its backward, as by PyTorch's `checkpoint`, and
nothing is sent to the host. That also works where torch.compile traces the whole model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stowage.errors import StowageError
from stowage.planner import Planned
from stowage.torch.choosing.best_plan import makespan_of
from stowage.torch.execution.program import Program

RUNS = ("auto", "torch", "stowage")
# The solver whose plans are run layer by layer, where the caller leaves the choice.
IN_TURN_SOLVER = "per_layer"
# By how much such a plan may be slower than the best, to be run layer by layer.
_AS_FAST = 1.005


@dataclass(frozen=True, slots=True)
class Route:
    """How a model's plan is run, and why so."""

    run: str  # "plain", "torch" or "stowage"
    reason: str


PLAIN = Route("plain", "plain training fits, so nothing is recomputed")


def choose_route(
    run: str,
    solver: str,
    length: int,
    best: Planned,
    find_in_turn: Callable[[], Planned | None],
) -> tuple[Planned, Route]:
    """The plan to use of a chain of `length` stages, and how.

    Args:
        run, solver: as of `fit`.
        best: of the solver's plans.
        find_in_turn: finds the best of those that are run layer by layer; None: none fits.

    Raises `StowageError` where `run` is "torch" and the solver's plan is no such one.
    """
    if run == "stowage":
        return best, Route("stowage", "run='stowage'")
    why_not = _why_not_in_turn(best, length)
    if not why_not:
        reason = "run='torch'" if run == "torch" else "each layer of the plan is replayed alone"
        return best, Route("torch", reason)
    if run == "torch":
        raise StowageError(
            f"run: 'torch' cannot run the plan of solver {solver!r}, which {why_not}: leave solver "
            "out, or pass run='stowage'"
        )
    if solver != "auto":
        return best, Route("stowage", f"the plan {why_not}")
    in_turn = find_in_turn()
    if in_turn is None:
        return best, Route(
            "stowage", f"the plan {why_not}, and none fits that replays each layer alone"
        )
    slower = makespan_of(in_turn) / makespan_of(best)
    if slower <= _AS_FAST:
        return in_turn, Route(
            "torch", "a plan that replays each layer alone is as fast as the best one"
        )
    return best, Route(
        "stowage",
        f"the plan {why_not}; the best that replays each layer alone takes {slower - 1:.1%} longer",
    )


def _why_not_in_turn(planned: Planned, length: int) -> str:
    """What is not done layer by layer of the plan; "": nothing."""
    schedule = planned.answer.schedule
    assert schedule is not None
    program = Program.of(schedule, length)
    if any(program.travels):
        return "sends values to host memory"
    return "" if program.in_turn else "replays several layers in a row"

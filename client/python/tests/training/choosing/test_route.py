"""How a plan is run: layer by layer or by Stowage's executor."""

from __future__ import annotations

import itertools
from dataclasses import replace

import models
import pytest
import schedules
from models import loss_of

import stowage
from stowage.planner import Planned
from stowage.torch.choosing.route import choose_route
from stowage.torch.execution.program import Program

LENGTH = 3
KIND = stowage.OperationKind


def _planned(schedule: stowage.Schedule, seconds: float) -> Planned:
    layer = stowage.Stage(output_bytes=1, saved_bytes=2)
    chain = stowage.Chain(stages=(layer,) * LENGTH, loss=stowage.Stage())
    answer = stowage.solve(chain, stowage.Platform(), memory=100, solver="rotor")
    assert answer.prediction is not None
    prediction = replace(answer.prediction, makespan_seconds=seconds)
    return Planned(answer=replace(answer, schedule=schedule, prediction=prediction), source="test")


def _nested() -> stowage.Schedule:
    """Replays the first two layers in a row."""
    order = [
        (KIND.FORWARD_CHECKPOINT, 1),
        (KIND.FORWARD_DISCARD, 2),
        *((KIND.FORWARD_SAVE, stage) for stage in (3, 4)),
        *((KIND.BACKWARD, stage) for stage in (4, 3)),
        (KIND.FORWARD_CHECKPOINT, 1),
        (KIND.FORWARD_SAVE, 2),
        (KIND.BACKWARD, 2),
        (KIND.FORWARD_SAVE, 1),
        (KIND.BACKWARD, 1),
    ]
    operations = tuple(stowage.Operation(kind=kind, stage=stage) for kind, stage in order)
    return stowage.Schedule(operations=operations)


def _with_transfers() -> stowage.Schedule:
    return schedules.random_transfers(schedules.in_turn([0, 0, 0]), LENGTH, 1)


NESTED = _planned(_nested(), 1.0)
IN_TURN = _planned(schedules.in_turn([None, 0, 0]), 1.004)


@pytest.mark.parametrize("options", list(itertools.product([None, 0, 1], repeat=LENGTH)))
def test_schedules_in_turn_are_known(options: tuple[int | None, ...]) -> None:
    assert Program.of(schedules.in_turn(options), LENGTH).in_turn


@pytest.mark.parametrize("schedule", [_nested(), _with_transfers()])
def test_others_are_known(schedule: stowage.Schedule) -> None:
    assert not Program.of(schedule, LENGTH).in_turn


def test_a_replay_that_is_not_right_before_its_backward_is_not_in_turn() -> None:
    order = list(schedules.in_turn([None, None, 0]).operations)
    at = next(i for i, one in enumerate(order) if (one.kind, one.stage) == (KIND.FORWARD_SAVE, 2))
    first = stowage.Operation(kind=KIND.FORWARD_SAVE, stage=1)
    last = max(i for i, one in enumerate(order) if one == first)
    order.insert(at, order.pop(last))
    assert not Program.of(stowage.Schedule(operations=tuple(order)), LENGTH).in_turn


@pytest.mark.parametrize(
    ("run", "best", "in_turn", "chosen", "reason"),
    [
        ("auto", IN_TURN, None, "torch", "each layer of the plan is replayed alone"),
        ("auto", NESTED, IN_TURN, "torch", "as fast as the best"),
        ("auto", NESTED, _planned(IN_TURN.answer.schedule, 1.1), "stowage", "10.0% longer"),
        ("auto", NESTED, None, "stowage", "several layers in a row, and none fits"),
        ("auto", _planned(_with_transfers(), 1.0), None, "stowage", "to host memory, and none"),
        ("stowage", IN_TURN, IN_TURN, "stowage", "run='stowage'"),
        ("torch", IN_TURN, None, "torch", "run='torch'"),
    ],
)
def test_the_route(
    run: str, best: Planned, in_turn: Planned | None, chosen: str, reason: str
) -> None:
    planned, route = choose_route(run, "auto", LENGTH, best, lambda: in_turn)
    assert route.run == chosen
    assert reason in route.reason
    assert planned is (in_turn if "as fast" in reason else best)


def test_a_solver_of_the_callers_choice_is_not_replaced() -> None:
    planned, route = choose_route("auto", "rotor", LENGTH, NESTED, lambda: IN_TURN)
    assert planned is NESTED
    assert route.run == "stowage"
    with pytest.raises(stowage.StowageError, match=r"run: 'torch'.*'rotor'.*in a row"):
        choose_route("torch", "rotor", LENGTH, NESTED, lambda: IN_TURN)


@pytest.mark.parametrize("run", ["torch", "stowage"])
def test_report_says_how_the_plan_is_run(run: str) -> None:
    example = models.make("blocks")
    fitted = stowage.fit(
        example.model, example.sample, activations="30%", loss=loss_of, run=run, verbose=False
    )
    by = {"torch": "layer by layer", "stowage": "by Stowage's executor"}[run]
    report = stowage.report(example.model)
    assert report.run == fitted.route.run == run
    assert f"{by}: run='{run}'" in str(report)
    assert by in str(fitted)


def test_report_says_that_plain_training_fits() -> None:
    example = models.make("blocks")
    stowage.fit(
        example.model, example.sample, activations="1GiB", loss=loss_of, run="torch", verbose=False
    )
    report = stowage.report(example.model)
    assert (report.run, report.run_reason) == (
        "plain",
        "plain training fits, so nothing is recomputed",
    )

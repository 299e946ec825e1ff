"""Training under a schedule leaves what plain training leaves, to the bit."""

from __future__ import annotations

import functools

import models
import pytest
import schedules
import torch
from models import differences, train

import stowage

SOLVERS = [solver.name for solver in stowage.solvers()]
# Solvers that take long on a chain of so many stages, or need graph costs, run on the small model.
QUICK = ["rotor", "revolve", "periodic", "pofo", "autocapper", "auto"]


@functools.cache
def _profiled(name: str) -> schedules.Profiled:
    return schedules.profiled(models.make(name))


@functools.cache
def _plain(name: str, bfloat16: bool) -> models.Trained:
    once = train(models.make(name), bfloat16=bfloat16)
    # Where two plain runs differ, there is nothing to compare with.
    assert differences(once, train(models.make(name), bfloat16=bfloat16)) == []
    return once


def _answer(name: str, solver: str, percent: int, link: float = 0.0) -> stowage.Answer:
    chain = _profiled(name).profile.chain
    platform = stowage.Platform(offload_bytes_per_second=link)
    answer = stowage.solve(chain, platform, memory=f"{percent}%", solver=solver, time_budget=5)
    if answer.outcome == stowage.Outcome.INFEASIBLE:
        # What this solver needs is more: the least with which it has a schedule.
        assert answer.minimum_memory_bytes is not None
        answer = stowage.solve(
            chain, platform, memory=answer.minimum_memory_bytes, solver=solver, time_budget=5
        )
    assert answer.schedule is not None
    return answer


def _compare(name: str, schedule: stowage.Schedule, bfloat16: bool = False) -> None:
    expected = _plain(name, bfloat16)
    profiled = _profiled(name)
    start = models.make(name)
    profiled.example.model.load_state_dict(start.model.state_dict())
    profiled.example.model.zero_grad()
    with profiled.under(schedule):
        found = train(profiled.example, bfloat16=bfloat16)
    assert differences(expected, found) == []


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("percent", [0, 20, 50, 100])
def test_every_solver(solver: str, percent: int) -> None:
    for link in (0.0, 1e8):
        answer = _answer("blocks", solver, percent, link)
        assert answer.schedule is not None
        _compare("blocks", answer.schedule)


@pytest.mark.parametrize("bfloat16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("percent", [0, 20, 50])
@pytest.mark.parametrize("name", models.MODELS)
def test_models(name: str, percent: int, bfloat16: bool) -> None:
    answer = _answer(name, QUICK[percent % len(QUICK)], percent, 1e9)
    assert answer.schedule is not None
    _compare(name, answer.schedule, bfloat16)


@pytest.mark.parametrize("name", ["blocks", *models.MODELS])
def test_random_transfers(name: str) -> None:
    profiled = _profiled(name)
    answer = _answer(name, "rotor", 10)
    assert answer.schedule is not None
    for seed in range(3):
        schedule = schedules.random_transfers(answer.schedule, len(profiled.stages), seed)
        platform = stowage.Platform(memory_bytes=2**40, offload_bytes_per_second=1e9)
        stowage.simulate(profiled.profile.chain, platform, schedule)  # it is valid
        _compare(name, schedule)


def test_a_recomputed_layer_really_runs_again() -> None:
    profiled = _profiled("blocks")
    answer = _answer("blocks", "rotor", 0)
    assert answer.schedule is not None
    runs = [0] * len(profiled.stages)

    def count(index: int) -> torch.utils.hooks.RemovableHandle:
        def hook(*_: object) -> None:
            runs[index] += 1

        return profiled.stages[index].modules[0].linear.register_forward_hook(hook)

    handles = [count(index) for index in range(8)]
    with profiled.under(answer.schedule):
        models.loss_of(profiled.example.forward()).backward()
    for handle in handles:
        handle.remove()
    forwards = [0] * (len(runs) + 2)
    for operation in answer.schedule.operations:
        if operation.kind.name.startswith("FORWARD"):
            forwards[operation.stage] += 1
    assert runs[:8] == forwards[1:9]
    assert max(runs) > 1

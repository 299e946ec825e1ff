"""What `fit` asks for where a chain's figures are coarser than memory."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

import stowage
from stowage.planner import Planned
from stowage.torch.best_plan import best_plan
from stowage.torch.overheads import ChainMemory, Overheads
from stowage.torch.profiler import Profile

PLATFORM = stowage.Platform()


def _profile(seed: int) -> Profile:
    chance = random.Random(seed)
    length = chance.randint(2, 6)
    stages = tuple(
        stowage.Stage(
            forward_seconds=chance.randint(1, 9),
            backward_seconds=chance.randint(1, 9),
            output_bytes=(output := chance.randint(1, 20)),
            saved_bytes=output + chance.randint(0, 60),
        )
        for _ in range(length)
    )
    overheads = tuple(Overheads(*(chance.randint(0, 30) for _ in range(3))) for _ in stages)
    memory = ChainMemory(overheads, chance.choice([0, 0, 10]))
    chain = stowage.Chain(input_bytes=5, stages=stages, loss=stowage.Stage())
    return Profile(memory.careful(chain), (), 0, 0, 1.0, 10**9, memory, ())


def _asks(profile: Profile) -> Callable[[stowage.Chain, int], Planned]:
    def ask(chain: stowage.Chain, memory: int) -> Planned:
        answer = stowage.solve(chain, PLATFORM, memory=memory, solver="rotor")
        return Planned(answer=answer, source="local solve")

    return ask


@functools.cache
def _peak(seed: int, memory: int) -> tuple[int, float] | int | None:
    profile = _profile(seed)
    found = best_plan(profile, PLATFORM, memory, _asks(profile))
    if not isinstance(found, Planned):
        return found
    assert found.answer.schedule is not None
    assert found.answer.prediction is not None
    peak = profile.memory.peak(
        profile.chain, stowage.Platform(memory_bytes=10**9), found.answer.schedule
    )
    return peak, found.answer.prediction.makespan_seconds


@pytest.mark.parametrize("seed", range(40))
def test_fits_is_no_slower_than_the_careful_answer_and_says_a_least_that_works(seed: int) -> None:
    profile = _profile(seed)
    least = _peak(seed, 0)
    assert isinstance(least, int)
    assert not isinstance(_peak(seed, least), int)
    for memory in range(least, least + 120, 17):
        found = _peak(seed, memory)
        assert isinstance(found, tuple)
        assert found[0] <= memory
        careful = _asks(profile)(profile.chain, memory).answer
        if careful.prediction is not None:
            assert found[1] <= careful.prediction.makespan_seconds * (1 + 1e-9)


def test_a_schedule_between_the_careful_one_and_the_smallest_is_found() -> None:
    """Sizes of a GPT-2 with eight layers, whose first schedules take too much by less each time."""
    unit = 64
    layer = Overheads(checkpoint=28 * unit, save=2 * unit, backward=6 * unit)
    overheads = (Overheads(unit, 0, 0), *[layer] * 8, Overheads(0, 0, 0))
    small = stowage.Stage(
        forward_seconds=1, backward_seconds=1, output_bytes=unit, saved_bytes=2 * unit
    )
    large = stowage.Stage(
        forward_seconds=40, backward_seconds=80, output_bytes=unit, saved_bytes=54 * unit
    )
    loss = stowage.Stage(saved_bytes=172, forward_overhead_bytes=249, backward_overhead_bytes=435)
    memory = ChainMemory(overheads, unit)
    chain = stowage.Chain(input_bytes=unit, stages=(small, *[large] * 8, small), loss=loss)
    profile = Profile(memory.careful(chain), (), 0, 0, 1.0, 10**9, memory, ())
    asks = _asks(profile)
    smallest = best_plan(profile, PLATFORM, 0, asks)
    assert isinstance(smallest, int)
    makespans = []
    for more in range(0, 6 * unit, unit // 8):
        found = best_plan(profile, PLATFORM, smallest + more, asks)
        assert isinstance(found, Planned)
        assert found.answer.prediction is not None
        makespans.append(found.answer.prediction.makespan_seconds)
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] < 0.7 * makespans[0]

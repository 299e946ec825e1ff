"""What `fit` asks for where a chain's figures are coarser than memory."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

import stowage
from stowage.planner import Planned
from stowage.torch.choosing.best_plan import best_plan
from stowage.torch.profiling.overheads import ChainMemory, Overheads
from stowage.torch.profiling.profiler import Profile

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
    overheads = tuple(_overheads(chance, stage) for stage in stages)
    memory = ChainMemory(overheads, chance.choice([0, 0, 10]), chance.choice([0, 0, 5]))
    chain = stowage.Chain(input_bytes=5, stages=stages, loss=stowage.Stage())
    return Profile(memory.careful(chain), (), 0, 0, 1.0, 10**9, memory, ())


def _overheads(chance: random.Random, stage: stowage.Stage) -> Overheads:
    checkpoint, save, backward = (chance.randint(0, 30) for _ in range(3))
    unread = chance.choice([0, stage.output_bytes])
    return Overheads(checkpoint, save, backward, unread, chance.randint(0, save + unread))


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
    layer = Overheads(28 * unit, 2 * unit, 6 * unit, unread=unit, replay=2 * unit)
    overheads = (Overheads(unit, 0, 0, 0, 0), *[layer] * 8, Overheads(0, 0, 0, 0, 0))
    small = stowage.Stage(
        forward_seconds=1, backward_seconds=1, output_bytes=unit, saved_bytes=2 * unit
    )
    large = stowage.Stage(
        forward_seconds=40, backward_seconds=80, output_bytes=unit, saved_bytes=54 * unit
    )
    loss = stowage.Stage(saved_bytes=172, forward_overhead_bytes=249, backward_overhead_bytes=435)
    memory = ChainMemory(overheads, unit, 0)
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


def test_what_only_an_output_takes_is_left_out_of_replays_and_backwards() -> None:
    stage = stowage.Stage(forward_seconds=1, backward_seconds=1, output_bytes=10, saved_bytes=30)
    chain = stowage.Chain(input_bytes=10, stages=(stage, stage), loss=stowage.Stage())
    kind = stowage.OperationKind
    operations = (
        (kind.FORWARD_CHECKPOINT, 1),
        (kind.FORWARD_SAVE, 2),
        (kind.FORWARD_SAVE, 3),
        (kind.BACKWARD, 3),
        (kind.BACKWARD, 2),
        (kind.FORWARD_SAVE, 1),
        (kind.BACKWARD, 1),
    )
    schedule = stowage.Schedule(
        operations=tuple(stowage.Operation(kind=what, stage=number) for what, number in operations)
    )

    def peak(*of_stages: Overheads, passing: int = 0) -> int:
        return ChainMemory(of_stages, 0, passing).peak(
            chain, stowage.Platform(memory_bytes=10**9), schedule
        )

    none = Overheads(0, 0, 0, 0, 0)
    # BACKWARD 2: the input, value 1, all of value 2 and two gradients.
    assert peak(none, none) == 10 + 10 + 30 + 20
    assert peak(none, Overheads(0, 0, 0, unread=10, replay=0)) == 10 + 10 + 20 + 20
    # FORWARD_SAVE 1: the input, all of value 1 and a gradient.
    save = Overheads(0, 100, 0, 0, 100)
    assert peak(save, none) == 10 + 30 + 10 + 100
    assert peak(Overheads(0, 100, 0, 10, 100), none) == 10 + 20 + 10 + 100
    assert peak(Overheads(0, 100, 0, 10, 90), none) == 10 + 20 + 10 + 90
    # BACKWARD 1.
    assert peak(Overheads(0, 0, 100, 0, 0), none) == 10 + 30 + 20 + 100
    assert peak(Overheads(0, 0, 100, 10, 0), none) == 10 + 20 + 20 + 100
    # FORWARD_SAVE 2, and BACKWARD 2 once what only the forward holds has gone.
    assert peak(none, none, passing=8) == 10 + 10 + 30 + 20 - 8
    assert peak(none, none, passing=30) == 10 + 10 + 30


def test_shared_gradients_are_held_from_the_losss_backward_on() -> None:
    stage = stowage.Stage(forward_seconds=1, backward_seconds=1, output_bytes=10, saved_bytes=30)
    chain = stowage.Chain(input_bytes=10, stages=(stage, stage), loss=stowage.Stage())
    kind = stowage.OperationKind
    order = [*((kind.FORWARD_SAVE, i) for i in (1, 2, 3)), *((kind.BACKWARD, i) for i in (3, 2, 1))]
    operations = tuple(stowage.Operation(kind=what, stage=number) for what, number in order)
    schedule = stowage.Schedule(operations=operations)

    def peak(save: int, shared: int) -> int:
        of_stages = (Overheads(0, save, 0, 0, save), Overheads(0, 0, 0, 0, 0))
        platform = stowage.Platform(memory_bytes=10**9)
        return ChainMemory(of_stages, shared, 0).peak(chain, platform, schedule)

    # BACKWARD 2: the input, both layers and two gradients.
    assert peak(save=0, shared=0) == 10 + 30 + 30 + 20
    assert peak(save=0, shared=50) == 10 + 30 + 30 + 20 + 50
    # FORWARD_SAVE 1 is before it.
    assert peak(save=1000, shared=50) == 10 + 30 + 1000

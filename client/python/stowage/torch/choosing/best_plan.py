"""The best schedule for a profile, whose memory is finer than a chain's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stowage.answer import Answer
from stowage.model import Chain, Operation, OperationKind, Platform, Schedule
from stowage.outcome import Outcome
from stowage.planner import Planned
from stowage.simulation import simulate
from stowage.torch.profiling.profiler import Profile

# How many schedules are looked for at most whose figures may be too lean.
_ATTEMPTS = 10
_MUCH = 2**61  # bytes
# By how much a schedule that fits may be slower than one that does not, for the search to end.
_AS_FAST = 1.005


def best_plan(
    profile: Profile, platform: Platform, memory: int, ask: Callable[[Chain, int], Planned]
) -> Planned | int | None:
    """The fastest of the schedules that `ask` finds and that fit into `memory` bytes.

    Where none fits, the least memory with which one does; None: no memory is enough.
    """
    fitting: list[Planned] = []
    if memory >= profile.outside_peak_bytes:
        fitting = _fitting(profile, platform, memory, ask)
    if not fitting:
        smallest = _smallest(profile, platform, ask)
        fitting = [planned for peak, planned in smallest if peak <= memory]
        if not fitting:
            return min((peak for peak, _ in smallest), default=None)
    return min(fitting, key=makespan_of)


def least_memory(
    profile: Profile, platform: Platform, ask: Callable[[Chain, int], Planned]
) -> int | None:
    """The least memory with which `best_plan` finds a schedule; None: no memory is enough."""
    return min((peak for peak, _ in _smallest(profile, platform, ask)), default=None)


def all_replayed(profile: Profile) -> Planned:
    """The plan that keeps nothing but outputs, and replays each layer, where that saves anything.

    As `checkpoint` around every layer. It takes the least memory of the plans that replay layers
    one by one; predicted by itself, without a solver.
    """
    chain, length = profile.chain, len(profile.chain.stages)
    replayed = {
        number
        for number, stage in enumerate(chain.stages, 1)
        if not stage.no_recompute and stage.saved_bytes > stage.output_bytes
    }
    operations: list[Operation] = []

    def add(kind: OperationKind, number: int) -> None:
        operations.append(Operation(kind=kind, stage=number))

    for number in range(1, length + 1):
        kept = number not in replayed
        add(OperationKind.FORWARD_SAVE if kept else OperationKind.FORWARD_CHECKPOINT, number)
    if chain.loss is not None:
        add(OperationKind.FORWARD_SAVE, length + 1)
        add(OperationKind.BACKWARD, length + 1)
    for number in range(length, 0, -1):
        if number in replayed:
            add(OperationKind.FORWARD_SAVE, number)
        add(OperationKind.BACKWARD, number)
    schedule = Schedule(operations=tuple(operations))
    platform = Platform(memory_bytes=_MUCH)
    simulated = simulate(chain, platform, schedule)
    answer = Answer(
        outcome=Outcome.FEASIBLE,
        schedule=schedule,
        prediction=simulated.prediction,
        platform=platform,
        explanation=simulated.explanation,
    )
    return Planned(answer=answer, source="local solve")


def _fitting(
    profile: Profile, platform: Platform, memory: int, ask: Callable[[Chain, int], Planned]
) -> list[Planned]:
    """Schedules that fit: some from the lean figures, for as much less memory as that takes, and
    the one from the careful figures unless the first lean one fits.

    A schedule that takes too much is followed by one for that much less memory, or twice the last
    step if that is more, until one fits. Then halving looks for a faster one between the two, as
    far as half a percent of the memory or of the makespan.
    """
    fitting: list[Planned] = []
    lean = profile.memory.lean(profile.chain)
    given = memory + profile.memory.beyond_lean(profile.chain)
    step = 0
    least_too_much: int | None = None
    least_makespan = 0.0  # of what takes too much, with more memory than what will fit
    most_that_fits = 0
    for _ in range(_ATTEMPTS):
        found = ask(lean, given)
        if found.answer.outcome == Outcome.INFEASIBLE:
            break
        excess = peak_of(profile, platform, found) - memory
        if excess <= 0:
            fitting.append(found)
            most_that_fits = given
            if least_too_much is None:
                return fitting
        else:
            if least_too_much is None:
                careful = ask(profile.chain, memory)
                if careful.answer.outcome != Outcome.INFEASIBLE:
                    fitting.append(careful)
            least_too_much, least_makespan = given, makespan_of(found)
        if any(makespan_of(one) <= least_makespan * _AS_FAST for one in fitting):
            break
        if most_that_fits > 0:
            given = (most_that_fits + least_too_much) // 2
            if given - most_that_fits <= memory // 512:
                break
        else:
            step = max(excess, 2 * step)
            given = max(0, given - step)
    return fitting


def _smallest(
    profile: Profile, platform: Platform, ask: Callable[[Chain, int], Planned]
) -> list[tuple[int, Planned]]:
    """Schedules for the least memory that the solver needs, and what a step with them takes."""
    found = []
    for chain in (profile.memory.lean(profile.chain), profile.chain):
        least = ask(chain, 0).answer.minimum_memory_bytes
        planned = None if least is None else ask(chain, least)
        if planned is not None and planned.answer.schedule is not None:
            peak = peak_of(profile, platform, planned)
            found.append((max(peak, profile.outside_peak_bytes), planned))
    return found


def peak_of(profile: Profile, platform: Platform, planned: Planned) -> int:
    """What a step takes with a plan that has a schedule, whatever the platform's memory."""
    schedule = planned.answer.schedule
    assert schedule is not None
    return profile.memory.peak(profile.chain, replace(platform, memory_bytes=_MUCH), schedule)


def makespan_of(planned: Planned) -> float:
    """Seconds; infinite where there is no schedule."""
    prediction = planned.answer.prediction
    return prediction.makespan_seconds if prediction is not None else float("inf")

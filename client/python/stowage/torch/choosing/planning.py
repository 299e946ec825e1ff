"""From a profile and a budget to the plan that is used, and how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from stowage.answer import Answer
from stowage.errors import BudgetError, InfeasibleError
from stowage.job import Component, Job, Phase
from stowage.local import memory_range, solve
from stowage.model import Chain, Platform
from stowage.native import format_bytes
from stowage.planner import Planned, plan
from stowage.torch.choosing.best_plan import all_replayed, best_plan, least_memory, peak_of
from stowage.torch.choosing.budget import MemoryUse, bytes_of, device_memory
from stowage.torch.choosing.route import IN_TURN_SOLVER, PLAIN, Route, choose_route
from stowage.torch.measuring.workload import Progress
from stowage.torch.profiling.profiler import Profile


@dataclass(frozen=True, slots=True)
class Solving:
    """What schedules are looked for with."""

    profile: Profile
    platform: Platform  # without its memory
    solver: str
    server: str | None
    plan_cache: str | None
    plan_options: Mapping[str, Any]

    def ask(self, chain: Chain, memory: int) -> Planned:
        if self.solver == IN_TURN_SOLVER:
            # Plan files are named after the chain, and there may be one of another solver.
            chain = replace(chain, name=f"{chain.name}-{self.solver}")
        return plan(
            chain,
            replace(self.platform, memory_bytes=memory),
            server=self.server,
            plan_cache=self.plan_cache,
            solver=self.solver,
            **self.plan_options,
        )

    def in_turn(self) -> Solving:
        """For plans that are run layer by layer."""
        return replace(self, solver=IN_TURN_SOLVER, platform=Platform(memory_bytes=0))

    def range_of_activations(self) -> tuple[int, int]:
        """From the least with which there is a schedule to those of plain training."""

        def ask_here(chain: Chain, memory: int) -> Planned:
            # The cache is for the schedule that is used.
            found = solve(chain, self.platform, memory=memory, solver=self.solver)
            return Planned(answer=found, source="local solve")

        least, most = memory_range(self.profile.chain)
        found = least_memory(self.profile, self.platform, ask_here)
        least = max(least, self.profile.outside_peak_bytes) if found is None else found
        least += self.profile.outside_bytes
        if self.profile.plain_peak_bytes is None:
            return least, max(least, most + self.profile.outside_bytes)
        return least, max(least, self.profile.plain_peak_bytes)


def budget_of(
    memory: int | str | None,
    activations: int | str | None,
    solving: Solving,
    use: MemoryUse,
    device: torch.device,
) -> tuple[int, int]:
    """Bytes of the whole job, and of its activations."""
    if (memory is None) == (activations is None):
        raise BudgetError("memory, activations: pass one of the two")
    if activations is not None:
        if isinstance(activations, str) and activations.strip().endswith("%"):
            share = bytes_of(activations, "activations", _WHOLE, _RANGE) / _WHOLE
            least, most = solving.range_of_activations()
            budget = least + int(share * (most - least))
        else:
            budget = bytes_of(activations, "activations", 0, _RANGE)
        return use.total + budget, budget
    whole = device_memory(device)
    total = bytes_of(memory, "memory", whole, "the device's memory")  # type: ignore[arg-type]
    if total <= use.total:
        raise BudgetError(
            f"memory: is {format_bytes(total)}; weights, gradients and the optimizer's state alone "
            f"take {format_bytes(use.total)}"
        )
    return total, total - use.total


# By how much too high a prediction may be.
_MAY_BE_LESS = 1.25
_WHOLE = 1 << 40  # of which a share is taken
_RANGE = "the range from the least with which there is a schedule to plain training's"


def find_plan(
    solving: Solving, budget: int, use: MemoryUse, run: str, progress: Progress
) -> tuple[Planned | None, Route]:
    """The plan and how it is run; None where plain training fits, or is no worse."""
    profile, solver = solving.profile, solving.solver
    plain = profile.plain_peak_bytes
    is_free = solver == "auto" or run == "torch"
    if is_free and plain is not None and plain <= budget:
        return None, PLAIN
    progress("solving", 1.0)
    memory = max(0, budget - profile.outside_bytes)
    found = best_plan(profile, solving.platform, memory, solving.ask)
    if isinstance(found, Planned):

        def find_in_turn() -> Planned | None:
            alone = solving.in_turn()
            in_turn = best_plan(profile, alone.platform, memory, alone.ask)
            return in_turn if isinstance(in_turn, Planned) else None

        return choose_route(run, solver, len(profile.chain.stages), found, find_in_turn)
    activations = profile.outside_bytes + max(found or 0, profile.outside_peak_bytes)
    if is_free and plain is not None:
        activations = min(activations, plain)
    raise infeasible(budget, activations, use)


def find_unproven(solving: Solving, budget: int, run: str) -> tuple[Planned, Route] | None:
    """A plan that may take somewhat less than predicted, where none is that fits; None: none may.

    It keeps outputs alone, as `checkpoint` around every layer.
    """
    if run == "stowage" or solving.solver not in ("auto", IN_TURN_SOLVER):
        return None
    profile = solving.profile
    found = all_replayed(profile)
    peak = peak_of(profile, solving.platform, found)
    if profile.outside_bytes + peak > _MAY_BE_LESS * budget:
        return None
    return found, Route("torch", "no plan is predicted to fit, and the least, once run, does")


def predicted_peak(profile: Profile, platform: Platform, answer: Answer | None) -> int | None:
    """Of activations in a step with the answer's schedule, or without one."""
    if answer is None or answer.schedule is None:
        return profile.plain_peak_bytes
    inside = profile.memory.peak(profile.chain, platform, answer.schedule)
    return max(inside, profile.outside_peak_bytes) + profile.outside_bytes


def job_of(chain: Chain, profile: Profile, use: MemoryUse, update_bytes: int = 0) -> Job:
    """The profile's chain with what else takes memory; `update_bytes`: in the optimizer's step."""
    before = profile.outside_bytes
    components = [
        Component(name="weights", bytes=use.weights),
        Component(name="gradients", bytes=use.gradients),
        Component(name="optimizer", bytes=use.optimizer),
        Component(name="before the layers", bytes=before, phase=Phase.LAYERS),
        Component(name="around", bytes=before + profile.outside_peak_bytes, phase=Phase.AROUND),
        Component(name="the optimizer's step", bytes=update_bytes, phase=Phase.UPDATE),
    ]
    components = [component for component in components if component.bytes]
    return Job(chain=chain, components=tuple(components), plain_peak_bytes=profile.plain_peak_bytes)


def infeasible(budget: int, activations: int, use: MemoryUse) -> InfeasibleError:
    """Of a budget for which no plan is; `activations` are the least with which there is one."""
    least = use.total + activations
    return InfeasibleError(
        f"no plan fits into {format_bytes(budget)} of activations; the least that works is "
        f"activations={activations} ({format_bytes(activations)}), or memory={least} "
        f"({format_bytes(least)}), of which {format_bytes(use.total)} are weights, gradients and "
        "the optimizer's state",
        minimum_memory_bytes=least,
    )

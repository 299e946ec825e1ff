"""From what `fit` is called with to a schedule that stands in the layers' forwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from stowage.answer import Answer
from stowage.errors import InfeasibleError
from stowage.local import solve
from stowage.model import Chain, Platform, Schedule
from stowage.planner import Planned, plan
from stowage.torch.arguments import FitArguments, caller_of, device_of, refuse_unlike
from stowage.torch.choosing.budget import MemoryUse, memory_use
from stowage.torch.choosing.link import measure_link
from stowage.torch.choosing.planning import (
    Solving,
    budget_of,
    find_plan,
    find_unproven,
    predicted_peak,
)
from stowage.torch.choosing.route import IN_TURN_SOLVER, Route
from stowage.torch.distributed.collectives import without_collectives
from stowage.torch.distributed.sharding import is_fully_sharded, refuse_parts
from stowage.torch.execution.coordinator import Coordinator, SeparateLayers
from stowage.torch.execution.other_sizes import OtherSizes
from stowage.torch.execution.program import Program, everything_stored
from stowage.torch.fitted import Fitted, remember, unfit
from stowage.torch.layers.discover import Layers, find_layers
from stowage.torch.layers.stage import Stage
from stowage.torch.layers.structure import tensors_of
from stowage.torch.layers.switches import Caches
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Progress, Workload
from stowage.torch.profiling.common_profile import common_profile
from stowage.torch.profiling.profile_file import ProfileFile
from stowage.torch.profiling.profiler import Profile, Profiler
from stowage.torch.progress import progress_bar
from stowage.torch.tensors.graph_leaves import leaves_of
from stowage.torch.tensors.transfers import transfers_for
from stowage.torch.trial import Measured, OutdatedError, try_schedule

# What is less of what a step holds is said in a note.
_LEAST_SHARE = 0.5


def place_schedule(
    model: nn.Module, arguments: FitArguments, caches: Caches, *, measures_anew: bool
) -> Fitted:
    """Finds the layers, measures them, asks for a plan, puts it in place and tries it.

    Raises `OutdatedError` where a saved profile is of no use, which `measures_anew` does not read.
    """
    device, ranks = device_of(model), arguments.ranks
    sample = tensors_of(arguments.sample)
    of_steps = ranks.of_steps
    work = Workload(
        caller_of(model, arguments.sample), arguments.loss, device, sample, ranks=of_steps
    )
    found = ranks.steps(lambda: _discover(model, work, arguments))
    if not found.is_chain:
        arguments = replace(arguments, run="torch", offload=False, solver=IN_TURN_SOLVER)
    stages = [
        Stage(name, modules) for name, modules in zip(found.names, found.modules, strict=True)
    ]
    for stage in stages:
        refuse_parts(stage.name, stage.modules)
    refuse_unlike(ranks, layers=found.names, are_a_chain=found.is_chain)
    with progress_bar("stowage", enabled=arguments.verbose) as progress:
        profiler = Profiler(model, stages, found.input_slots, work, progress)
        measured = _measured(model, profiler, stages, work, arguments, measures_anew=measures_anew)
        profile = measured.profile
        copies = arguments.optimizer_copies, arguments.gradient_copies
        use = memory_use(model, arguments.optimizer, *copies)
        platform = Platform(memory_bytes=0)
        if arguments.offload or (arguments.offload is None and device.type == "cuda"):
            platform = measure_link(platform, device)
        solving = Solving(
            profile,
            platform,
            arguments.solver,
            arguments.server,
            arguments.plan_cache,
            arguments.plan_options,
        )
        budgets = ranks.together(
            lambda: budget_of(arguments.memory, arguments.activations, solving, use, device)
        )
        budget = min(activations for _, activations in budgets)
        planned, route, too_much = _planned(solving, budget, use, arguments, measured, progress)
    if not found.is_chain and route.reason == "run='torch'":
        route = replace(route, reason="the layers are no chain, so each is replayed alone")
    platform = replace(platform, memory_bytes=max(0, budget - profile.outside_bytes))
    answer = planned.answer if planned is not None else None
    fitted = Fitted(
        _coordinator(model, stages, found, profile, platform, answer, route, arguments),
        profile,
        use,
        use.total + budget,
        budget,
        platform,
        answer,
        planned.source if planned is not None else "measured",
        _notes(arguments, profile, planned),
        predicted_peak(profile, platform, answer),
        route,
        caches,
    )
    remember(model, fitted)
    try:
        try_schedule(model, work, fitted, measured, ranks, too_much, measure=arguments.measure)
    except BaseException:
        unfit(model)
        raise
    return fitted


def _discover(model: nn.Module, work: Workload, arguments: FitArguments) -> Layers:
    outputs: list[Any] = []
    # Layers that are no chain are replayed alone, which other arguments exclude.
    may_be_apart = (
        arguments.run != "stowage"
        and not arguments.offload
        and arguments.solver in ("auto", IN_TURN_SOLVER)
        and not arguments.ranks.in_layers
        and not any(map(is_fully_sharded, model.modules()))
    )
    with unchanged(model, work), without_collectives(model):
        found = find_layers(
            model,
            lambda: outputs.append(work.forward()),
            arguments.layers,
            may_be_apart=may_be_apart,
        )
        work.leaves = leaves_of([work.loss(outputs.pop())])
    return found.apart() if arguments.skips_layers and may_be_apart else found


def _measured(
    model: nn.Module,
    profiler: Profiler,
    stages: Sequence[Stage],
    work: Workload,
    arguments: FitArguments,
    *,
    measures_anew: bool,
) -> Measured:
    file, ranks = None, arguments.ranks
    if arguments.plan_cache is not None:
        file = ProfileFile(
            arguments.plan_cache,
            model,
            stages,
            work,
            is_chain=profiler.is_chain,
            selective=arguments.selective,
        )
        profile = None if measures_anew else file.load(ranks.first(file.read))
        is_known = not ranks.any_of(profile is None)
        if is_known and profile is not None:
            return Measured(profile, file, True, None)
    name = type(model).__name__
    profile = ranks.steps(lambda: profiler.run(name, selective=arguments.selective))
    profile = common_profile(profile, stages, ranks)
    if file is not None and ranks.is_first:
        file.save(profile)
    return Measured(profile, file, False, profiler.plain)


def _planned(
    solving: Solving,
    budget: int,
    use: MemoryUse,
    arguments: FitArguments,
    measured: Measured,
    progress: Progress,
) -> tuple[Planned | None, Route, InfeasibleError | None]:
    """The plan, how it is run and, where it is predicted not to fit, the error that says so."""
    ranks, run = arguments.ranks, arguments.run
    try:
        planned, route = ranks.first(lambda: find_plan(solving, budget, use, run, progress))
    except InfeasibleError as error:
        unproven = ranks.first(lambda: find_unproven(solving, budget, run))
        if unproven is not None:
            return *unproven, error
        if not measured.is_saved:
            raise
        raise OutdatedError("no schedule fits with the saved profile") from error
    return planned, route, None


def _notes(arguments: FitArguments, profile: Profile, planned: Planned | None) -> tuple[str, ...]:
    share = profile.managed_share
    left_out = f"{1 - share:.0%} of what a step holds is outside of these layers, and stays"
    of_share = (left_out,) if share < _LEAST_SHARE else ()
    return (*arguments.notes, *of_share, *profile.notes, *(planned.notes if planned else ()))


def _coordinator(
    model: nn.Module,
    stages: Sequence[Stage],
    found: Layers,
    profile: Profile,
    platform: Platform,
    answer: Answer | None,
    route: Route,
    arguments: FitArguments,
) -> Coordinator | SeparateLayers:
    """What runs the answer's schedule, or all layers as they are, in the layers' place."""
    program = (
        everything_stored(len(stages))
        if answer is None or answer.schedule is None
        else Program.of(answer.schedule, len(stages))
    )
    if found.input_slots is None:
        may_replay = [not stage.no_recompute for stage in profile.chain.stages]
        return SeparateLayers(model, stages, program, found.elements, may_replay)
    return Coordinator(
        stages,
        program,
        transfers_for(device_of(model)),
        found.input_slots,
        # Processes with parts of other sizes would choose other programs.
        None
        if arguments.ranks.in_layers
        else _other_sizes(profile, platform, program, route, arguments),
        alone=route.run != "stowage",
    )


def _other_sizes(
    profile: Profile, platform: Platform, program: Program, route: Route, arguments: FitArguments
) -> OtherSizes:
    budget = (platform.memory_bytes or 0) + profile.outside_bytes
    solver = arguments.solver
    if route.run == "torch" and solver == "auto":
        solver = IN_TURN_SOLVER
    of_least = solver if arguments.run == "torch" else "rotor"
    # Not all arguments: they have the sample, the optimizer and a loss.
    server, plan_options = arguments.server, arguments.plan_options

    def least() -> Schedule | None:
        without_link = Platform(memory_bytes=0)
        none = solve(profile.chain, without_link, solver=of_least)
        if none.minimum_memory_bytes is None:
            return None
        return solve(
            profile.chain, without_link, memory=none.minimum_memory_bytes, solver=of_least
        ).schedule

    def find(chain: Chain, outside: int) -> Answer:
        there = replace(platform, memory_bytes=max(0, budget - outside))
        return plan(chain, there, server=server, solver=solver, **plan_options).answer

    return OtherSizes(profile.input, program, profile.chain, profile.outside_bytes, least, find)

"""`fit`, `unfit` and `report`: from a model and a budget to a model that trains within it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from stowage.answer import Answer
from stowage.errors import InfeasibleError, NotAChainError, StowageError
from stowage.local import solve
from stowage.model import Chain, Platform, Schedule
from stowage.planner import plan
from stowage.torch.choosing.budget import memory_use
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
from stowage.torch.distributed.ranks import Ranks
from stowage.torch.distributed.sharding import (
    before_the_first_run,
    forget_forward,
    is_fully_sharded,
    ranks_of,
    refuse_parts,
    refuse_pending,
    settle,
    wrapper_of,
)
from stowage.torch.distributed.wrapping import eagerly, is_compiled_whole, unwrapped
from stowage.torch.execution.coordinator import Coordinator, SeparateLayers
from stowage.torch.execution.other_sizes import OtherSizes
from stowage.torch.execution.program import Program, everything_stored
from stowage.torch.fitted import Fitted, remember, unfit, unfit_parts
from stowage.torch.layers.discover import Layers, find_layers
from stowage.torch.layers.stage import Stage
from stowage.torch.layers.structure import tensors_of
from stowage.torch.layers.switches import (
    Caches,
    checkpoints_itself,
    skips_layers,
    warn_of_checkpointing,
    warn_of_no_plan,
    without_skipping,
)
from stowage.torch.measuring.model_state import refuse_lazy, unchanged
from stowage.torch.measuring.workload import Workload, metered_step
from stowage.torch.policies import policies_of
from stowage.torch.profiling.common_profile import common_profile
from stowage.torch.profiling.profile_file import ProfileFile
from stowage.torch.profiling.profiler import Profile, Profiler
from stowage.torch.progress import progress_bar
from stowage.torch.tensors.graph_leaves import leaves_of
from stowage.torch.tensors.transfers import transfers_for
from stowage.torch.trial import Measured, OutdatedError, try_schedule
from stowage.torch.wishes import (
    Wishes,
    by_size,
    caller_of,
    check_call,
    check_run,
    check_sharded,
    check_skipping,
    device_of,
    loss_of,
    refuse_unlike,
)

_log = logging.getLogger("stowage")


def fit(
    model: nn.Module,
    sample: Any,
    *,
    memory: int | str | None = None,
    activations: int | str | None = None,
    layers: Iterable[nn.Module] | None = None,
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    optimizer_copies: float = 2.0,
    server: str | None = None,
    plan_cache: str | None = None,
    solver: str = "auto",
    offload: bool | None = None,
    selective: bool | Iterable[str] = True,
    run: str = "auto",
    measure: bool = True,
    verbose: bool = True,
    strict: bool = True,
    **plan_options: Any,
) -> Fitted | None:
    """Makes the layers of `model` train within a memory budget. The training loop stays as it is.

    Runs the model a few times on `sample`, to find the layers and to measure times and sizes; asks
    for a schedule; and puts it in the place of the layers' forwards. Parameters, gradients,
    buffers, modes, hooks, the sample and random numbers are afterwards what they were, also where
    it raises. A model that was fitted is fitted anew; one that shares layers with this one gets its
    own forwards back. Where `fully_shard`, `parallelize_module` or DistributedDataParallel has
    spread the model over processes, all of them call this, and share one plan.

    Args:
        model: in the mode (train or eval) and on the device in which it will run.
        sample: what the model is called with: a tensor, a tuple of arguments, or a dict of keyword
            arguments. Of the size that training uses; or a list of several, of which the largest is
            measured layer by layer, and the others by a step. Sizes between two that were measured
            are known.
        memory: of the device, for all of the job: bytes, "12GiB", or "80%" of the device. What
            weights, their gradients and the optimizer take is subtracted.
        activations: in place of `memory`, the memory of activations alone: bytes, "3GiB", or "40%"
            of the range from the least with which there is a schedule to plain training's.
        layers: the modules that are called one after the other, each with the output of the one
            before; or others, each of which is then kept or replayed alone. Found when None.
        loss: of the model's output, a tensor of one number; by default the output's ``loss``, or
            the mean of its tensors.
        optimizer: what its state takes is subtracted from `memory`. Without one,
            `optimizer_copies` of the parameters: 2 as for Adam.
        server: host:port of a Stowage server, or several with commas between; None: solves here.
        plan_cache: a folder that keeps the profile and the schedule for the next start, which then
            measures no layers.
        solver: a solver's name, as in `stowage.solvers`.
        offload: whether values may go to host memory; by default where the device is a GPU.
        selective: whether a layer may keep a part of what its backward needs, operator by
            operator, and rerun the rest. Finding such ways takes a few steps' time. Or names of
            `stowage.torch.policies.POLICIES`, such as "products and attention": layers may then
            keep a part by these alone, which `report(model).chain` has measured.
        run: "torch": layer by layer, as `torch.utils.checkpoint` does and torch.compile of
            the whole model needs; "stowage": by Stowage's executor, which also replays several
            layers in a row and offloads; "auto": the first where a plan for it is as fast.
        measure: whether to run a step at the end, for `report`.
        verbose: writes progress and a paragraph to standard error.
        strict: raises where there is no plan; else warns, returns None, and leaves the model as it
            is.
        plan_options: further arguments of `stowage.plan`.

    Raises:
        NotAChainError: the layers are none, or something is sharded or wrapped for several
            processes in a way that is not supported; says what is in the way, and what to do.
        InfeasibleError: no schedule fits; says the least memory that is enough.
        BudgetError: `memory` or `activations` cannot be read or is not enough for the weights.
    """
    wishes = Wishes(
        sample,
        memory,
        activations,
        None if layers is None else tuple(layers),
        loss or loss_of,
        optimizer,
        optimizer_copies,
        server,
        plan_cache,
        solver,
        offload,
        policies_of(selective) or bool(selective),
        run,
        measure,
        verbose,
        plan_options,
    )
    try:
        return _fit_wished(unwrapped(model), is_compiled_whole(model), wishes)
    except StowageError as error:
        if strict:
            raise
        warn_of_no_plan(error)
    return None


def _fit_wished(model: nn.Module, is_compiled: bool, wishes: Wishes) -> Fitted:
    """`is_compiled` says whether it is as it was passed; see `is_compiled_whole`."""
    sample, *smaller = by_size(wishes.sample)
    wrapper = wrapper_of(model)
    ranks = _ready_ranks(model, wrapper)
    is_sharded = ranks.in_layers or any(map(is_fully_sharded, model.modules()))
    skips = skips_layers(model)

    def check() -> None:
        check_call(model, wishes)
        check_run(wishes)
        if is_sharded:
            check_sharded(wishes)
        if skips:
            check_skipping(wishes)
        refuse_lazy(model)

    ranks.together(check)
    _refuse_unlike_calls(ranks, wishes, [sample, *smaller])
    run, offload, solver = wishes.run, wishes.offload, wishes.solver
    if is_sharded or (is_compiled and run == "auto" and not offload):
        run = "torch"  # other plans break a compiled graph at each layer
    if run == "torch":
        offload, solver = False, IN_TURN_SOLVER if solver == "auto" else solver
    unfit_parts(model)
    _warn_of_checkpointing(model)
    caches = Caches(model)
    wishes = replace(
        wishes,
        sample=sample,
        run=run,
        offload=offload,
        solver=solver,
        selective=not ranks.in_layers and wishes.selective,
        verbose=wishes.verbose and ranks.is_first,
        ranks=ranks,
        # Buckets are another copy of the gradients.
        gradient_copies=1 if getattr(wrapper, "gradient_as_bucket_view", True) else 2,
        skips_layers=skips,
        notes=(
            *(["what is measured is without torch.compile of the model"] if is_compiled else []),
            *(["what is measured is without LayerDrop"] if skips else []),
            *([caches.note()] if caches.note() else []),
        ),
    )
    try:
        around = eagerly(model), before_the_first_run(model), without_skipping(model)
        with ranks.telling(), around[0], around[1], around[2]:
            try:
                done = _fit(model, wishes, caches, measures_anew=False)
            except OutdatedError as error:
                _log.info("%s; measures anew", error)
                done = _fit(model, wishes, caches, measures_anew=True)
            ranks.steps(lambda: _measure_sizes(model, done, smaller, wishes))
    except BaseException:
        unfit(model)  # where a step of another size has failed
        caches.put_back()
        forget_forward(wrapper)
        raise
    _log.info("%s", done)
    if wishes.verbose:
        print(done, file=sys.stderr)
    return done


def _refuse_unlike_calls(ranks: Ranks, wishes: Wishes, samples: Sequence[Any]) -> None:
    refuse_unlike(
        ranks,
        sample=[
            (tuple(tensor.shape), str(tensor.dtype))
            for sample in samples
            for tensor in tensors_of(sample)
        ],
        memory=wishes.memory is None,
        plan_cache=wishes.plan_cache is None,
        solver=wishes.solver,
        offload=wishes.offload,
        selective=wishes.selective,
        run=wishes.run,
        measure=wishes.measure,
    )


def _fit(model: nn.Module, wishes: Wishes, caches: Caches, *, measures_anew: bool) -> Fitted:
    device = device_of(model)
    ranks = wishes.ranks
    sample = tensors_of(wishes.sample)
    of_steps = ranks.of_steps
    work = Workload(caller_of(model, wishes.sample), wishes.loss, device, sample, ranks=of_steps)
    found = ranks.steps(lambda: _discover(model, work, wishes))
    if not found.is_chain:
        wishes = replace(wishes, run="torch", offload=False, solver=IN_TURN_SOLVER)
    stages = [
        Stage(name, modules) for name, modules in zip(found.names, found.modules, strict=True)
    ]
    for stage in stages:
        refuse_parts(stage.name, stage.modules)
    refuse_unlike(ranks, layers=found.names, are_a_chain=found.is_chain)
    with progress_bar("stowage", enabled=wishes.verbose) as progress:
        profiler = Profiler(model, stages, found.input_slots, work, progress)
        measured = _measured(model, profiler, stages, work, wishes, measures_anew=measures_anew)
        profile = measured.profile
        copies = wishes.optimizer_copies, wishes.gradient_copies
        use = memory_use(model, wishes.optimizer, *copies)
        platform = Platform(memory_bytes=0)
        if wishes.offload or (wishes.offload is None and device.type == "cuda"):
            platform = measure_link(platform, device)
        solving = Solving(
            profile,
            platform,
            wishes.solver,
            wishes.server,
            wishes.plan_cache,
            wishes.plan_options,
        )
        budgets = ranks.together(
            lambda: budget_of(wishes.memory, wishes.activations, solving, use, device)
        )
        budget = min(activations for _, activations in budgets)
        total = use.total + budget
        run, too_much = wishes.run, None
        try:
            planned, route = ranks.first(lambda: find_plan(solving, budget, use, run, progress))
        except InfeasibleError as error:
            unproven = ranks.first(lambda: find_unproven(solving, budget, run))
            if unproven is None:
                if not measured.is_saved:
                    raise
                raise OutdatedError("no schedule fits with the saved profile") from error
            (planned, route), too_much = unproven, error
    if found.input_slots is None and route.reason == "run='torch'":
        route = replace(route, reason="the layers are no chain, so each is replayed alone")
    platform = replace(platform, memory_bytes=max(0, budget - profile.outside_bytes))
    answer = planned.answer if planned is not None else None
    program = (
        everything_stored(len(stages))
        if answer is None or answer.schedule is None
        else Program.of(answer.schedule, len(stages))
    )
    if found.input_slots is None:
        may_replay = [not stage.no_recompute for stage in profile.chain.stages]
        coordinator: Coordinator | SeparateLayers = SeparateLayers(
            model, stages, program, found.elements, may_replay
        )
    else:
        coordinator = Coordinator(
            stages,
            program,
            transfers_for(device),
            found.input_slots,
            # Processes with parts of other sizes would choose other programs.
            None if ranks.in_layers else _other_sizes(profile, platform, program, route, wishes),
            alone=route.run != "stowage",
        )
    share = profile.managed_share
    left_out = f"{1 - share:.0%} of what a step holds is outside of these layers, and stays"
    notes = (
        *wishes.notes,
        *([left_out] if share < _LEAST_SHARE else []),
    )
    fitted = Fitted(
        coordinator,
        profile,
        use,
        total,
        budget,
        platform,
        answer,
        planned.source if planned is not None else "measured",
        (*notes, *profile.notes, *(planned.notes if planned is not None else ())),
        predicted_peak(profile, platform, answer),
        route,
        caches,
    )
    remember(model, fitted)
    try:
        try_schedule(model, work, fitted, measured, ranks, too_much, measure=wishes.measure)
    except BaseException:
        unfit(model)
        raise
    return fitted


def _measured(
    model: nn.Module,
    profiler: Profiler,
    stages: Sequence[Stage],
    work: Workload,
    wishes: Wishes,
    *,
    measures_anew: bool,
) -> Measured:
    file, ranks = None, wishes.ranks
    if wishes.plan_cache is not None:
        file = ProfileFile(
            wishes.plan_cache,
            model,
            stages,
            work,
            is_chain=profiler.is_chain,
            selective=wishes.selective,
        )
        profile = None if measures_anew else file.load(ranks.first(file.read))
        is_known = not ranks.any_of(profile is None)
        if is_known and profile is not None:
            return Measured(profile, file, True, None)
    name = type(model).__name__
    profile = ranks.steps(lambda: profiler.run(name, selective=wishes.selective))
    profile = common_profile(profile, stages, ranks)
    if file is not None and ranks.is_first:
        file.save(profile)
    return Measured(profile, file, False, profiler.plain)


# What is less of what a step holds is said in a note.
_LEAST_SHARE = 0.5


def _other_sizes(
    profile: Profile, platform: Platform, program: Program, route: Route, wishes: Wishes
) -> OtherSizes:
    budget = (platform.memory_bytes or 0) + profile.outside_bytes
    solver = wishes.solver
    if route.run == "torch" and solver == "auto":
        solver = IN_TURN_SOLVER
    of_least = solver if wishes.run == "torch" else "rotor"
    # Not all of the wishes: they have the sample, the optimizer and a loss.
    server, plan_options = wishes.server, wishes.plan_options

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


def _warn_of_checkpointing(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if checkpoints_itself(module):
            warn_of_checkpointing(name)
            return


def _ready_ranks(model: nn.Module, wrapper: Any) -> Ranks:
    """The processes that fit the model, none of which is in the middle of a step."""
    pending: NotAChainError | None = None
    try:
        refuse_pending(model)
        settle(model)
    except NotAChainError as error:
        pending = error
    ranks = ranks_of(model, wrapper)

    def check() -> None:
        if pending is not None:
            raise pending

    ranks.together(check)
    return ranks


def _measure_sizes(
    model: nn.Module, fitted: Fitted, samples: Iterable[Any], wishes: Wishes
) -> None:
    """Runs a step of each sample, which `fitted` measures. Waits for their plans."""
    sizes = fitted.coordinator.other_sizes
    if sizes is None or fitted.answer is None:  # plain training fits for a larger one
        return
    for sample in samples:
        tensors = tensors_of(sample)
        work = Workload(caller_of(model, sample), wishes.loss, device_of(model), tensors)
        with unchanged(model, work):
            metered_step(work)
        sizes.wait()


def _discover(model: nn.Module, work: Workload, wishes: Wishes) -> Layers:
    outputs: list[Any] = []
    # Layers that are no chain are replayed alone, which other wishes are not for.
    may_be_apart = (
        wishes.run != "stowage"
        and not wishes.offload
        and wishes.solver in ("auto", IN_TURN_SOLVER)
        and not wishes.ranks.in_layers
        and not any(map(is_fully_sharded, model.modules()))
    )
    with unchanged(model, work), without_collectives(model):
        found = find_layers(
            model,
            lambda: outputs.append(work.forward()),
            wishes.layers,
            may_be_apart=may_be_apart,
        )
        work.leaves = leaves_of([work.loss(outputs.pop())])
    return found.apart() if wishes.skips_layers and may_be_apart else found

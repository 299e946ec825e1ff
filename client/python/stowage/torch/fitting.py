"""`fit`, `unfit` and `report`: from a model and a budget to a model that trains within it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError, StowageError
from stowage.torch.arguments import (
    FitArguments,
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
from stowage.torch.choosing.route import IN_TURN_SOLVER
from stowage.torch.distributed.ranks import Ranks
from stowage.torch.distributed.sharding import (
    before_the_first_run,
    forget_forward,
    is_fully_sharded,
    ranks_of,
    refuse_pending,
    settle,
    wrapper_of,
)
from stowage.torch.distributed.wrapping import eagerly, is_compiled_whole, unwrapped
from stowage.torch.fitted import Fitted, unfit, unfit_parts
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
from stowage.torch.placing import place_schedule
from stowage.torch.policies import policies_of
from stowage.torch.trial import OutdatedError

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
    arguments = FitArguments(
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
        return _fit(unwrapped(model), is_compiled_whole(model), arguments)
    except StowageError as error:
        if strict:
            raise
        warn_of_no_plan(error)
    return None


def _fit(model: nn.Module, is_compiled: bool, arguments: FitArguments) -> Fitted:
    """`is_compiled` says whether it is as it was passed; see `is_compiled_whole`."""
    sample, *smaller = by_size(arguments.sample)
    wrapper = wrapper_of(model)
    ranks = _ready_ranks(model, wrapper)
    is_sharded = ranks.in_layers or any(map(is_fully_sharded, model.modules()))
    skips = skips_layers(model)

    def check() -> None:
        check_call(model, arguments)
        check_run(arguments)
        if is_sharded:
            check_sharded(arguments)
        if skips:
            check_skipping(arguments)
        refuse_lazy(model)

    ranks.together(check)
    _refuse_unlike_calls(ranks, arguments, [sample, *smaller])
    run, offload, solver = arguments.run, arguments.offload, arguments.solver
    if is_sharded or (is_compiled and run == "auto" and not offload):
        run = "torch"  # other plans break a compiled graph at each layer
    if run == "torch":
        offload, solver = False, IN_TURN_SOLVER if solver == "auto" else solver
    unfit_parts(model)
    _warn_of_checkpointing(model)
    caches = Caches(model)
    arguments = replace(
        arguments,
        sample=sample,
        run=run,
        offload=offload,
        solver=solver,
        selective=not ranks.in_layers and arguments.selective,
        verbose=arguments.verbose and ranks.is_first,
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
                done = place_schedule(model, arguments, caches, measures_anew=False)
            except OutdatedError as error:
                _log.info("%s; measures anew", error)
                done = place_schedule(model, arguments, caches, measures_anew=True)
            ranks.steps(lambda: _measure_sizes(model, done, smaller, arguments))
    except BaseException:
        unfit(model)  # where a step of another size has failed
        caches.put_back()
        forget_forward(wrapper)
        raise
    _log.info("%s", done)
    if arguments.verbose:
        print(done, file=sys.stderr)
    return done


def _refuse_unlike_calls(ranks: Ranks, arguments: FitArguments, samples: Sequence[Any]) -> None:
    refuse_unlike(
        ranks,
        sample=[
            (tuple(tensor.shape), str(tensor.dtype))
            for sample in samples
            for tensor in tensors_of(sample)
        ],
        memory=arguments.memory is None,
        plan_cache=arguments.plan_cache is None,
        solver=arguments.solver,
        offload=arguments.offload,
        selective=arguments.selective,
        run=arguments.run,
        measure=arguments.measure,
    )


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
    model: nn.Module, fitted: Fitted, samples: Iterable[Any], arguments: FitArguments
) -> None:
    """Runs a step of each sample, which `fitted` measures. Waits for their plans."""
    sizes = fitted.coordinator.other_sizes
    if sizes is None or fitted.answer is None:  # plain training fits for a larger one
        return
    for sample in samples:
        tensors = tensors_of(sample)
        work = Workload(caller_of(model, sample), arguments.loss, device_of(model), tensors)
        with unchanged(model, work):
            metered_step(work)
        sizes.wait()

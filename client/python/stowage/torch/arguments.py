"""What `fit` is called with, and what is refused before anything is measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError, StowageError
from stowage.planner import plan
from stowage.torch.choosing.route import IN_TURN_SOLVER, RUNS
from stowage.torch.distributed.ranks import Ranks
from stowage.torch.layers.structure import tensors_of


@dataclass(frozen=True, slots=True)
class FitArguments:
    """Arguments of `fit`."""

    sample: Any
    memory: int | str | None
    activations: int | str | None
    layers: tuple[nn.Module, ...] | None
    loss: Callable[[Any], Tensor]
    optimizer: torch.optim.Optimizer | None
    optimizer_copies: float
    server: str | None
    plan_cache: str | None
    solver: str
    offload: bool | None
    selective: bool | tuple[str, ...]
    run: str
    measure: bool
    verbose: bool
    plan_options: Mapping[str, Any]
    # What is known of the model.
    ranks: Ranks = field(default_factory=Ranks)
    gradient_copies: int = 1
    skips_layers: bool = False  # a step may, at random
    notes: tuple[str, ...] = ()


def by_size(sample: Any) -> list[Any]:
    """The samples, the largest first."""
    samples = sample if isinstance(sample, list) else [sample]
    if not samples or any(isinstance(each, list) for each in samples):
        raise TypeError(
            "sample: pass a tensor, a tuple of arguments or a dict of them, or a list of such"
        )
    sizes = [sum(tensor.numel() for tensor in tensors_of(each)) for each in samples]
    return [samples[i] for i in sorted(range(len(samples)), key=sizes.__getitem__, reverse=True)]


def caller_of(model: nn.Module, sample: Any) -> Callable[[], Any]:
    if isinstance(sample, Mapping):
        return lambda: model(**sample)
    if isinstance(sample, tuple):
        return lambda: model(*sample)
    return lambda: model(sample)


def loss_of(output: Any) -> Tensor:
    """A loss where the caller gives none."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    tensors = [t for t in tensors_of(output) if t.is_floating_point() and t.requires_grad]
    if not tensors:
        raise NotAChainError(
            "the model's output has no tensor that depends on its parameters: pass loss="
        )
    return sum((tensor.float().mean() for tensor in tensors[1:]), tensors[0].float().mean())


def device_of(model: nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) > 1:
        raise NotAChainError(
            "the model's parameters are on several devices: "
            + ", ".join(sorted(str(device) for device in devices))
            + "; a chain runs on one"
        )
    return devices.pop() if devices else torch.device("cpu")


def check_call(model: nn.Module, arguments: FitArguments) -> None:
    optimizer: Any = arguments.optimizer
    unknown = arguments.plan_options.keys() - inspect.signature(plan).parameters.keys()
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {min(unknown)!r}")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer: is {optimizer!r}; pass a torch.optim.Optimizer")
    if not torch.is_grad_enabled():
        raise StowageError("gradients are off: call stowage.fit outside of torch.no_grad()")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise StowageError("no parameter of the model needs a gradient: there is nothing to train")


def check_run(arguments: FitArguments) -> None:
    run = arguments.run
    if run not in RUNS:
        raise ValueError(f"run: is {run!r}; pass one of " + ", ".join(map(repr, RUNS)))
    if run == "torch" and arguments.offload:
        raise ValueError(
            "offload: run='torch' sends nothing to host memory; leave one of the two out"
        )


def check_sharded(arguments: FitArguments) -> None:
    if arguments.run == "stowage" or arguments.offload:
        raise StowageError(
            "run, offload: layers that fully_shard or parallelize_module has sharded talk to other "
            "processes around their own backward, so each is replayed right before it and nothing "
            "is sent to host memory; leave run='stowage' and offload=True out"
        )


def check_skipping(arguments: FitArguments) -> None:
    if (
        arguments.run == "stowage"
        or arguments.offload
        or arguments.solver not in ("auto", IN_TURN_SOLVER)
    ):
        raise StowageError(
            "run, offload, solver: a step of the model skips layers at random (LayerDrop), so each "
            "is kept or replayed alone: leave these arguments out, or set layerdrop=0 in the "
            "model's config"
        )


def refuse_unlike(ranks: Ranks, **facts: Any) -> None:
    """Raises in all processes where one of them would measure other steps, and so wait for ever."""
    of_all = ranks.all_of(facts)
    for name, first in of_all[0].items():
        for number, of_process in enumerate(of_all):
            if of_process[name] != first:
                raise StowageError(
                    f"{name}: process {number} has another than process 0, and all measure the "
                    "same steps: call stowage.fit alike in all of them, with samples of one size"
                )

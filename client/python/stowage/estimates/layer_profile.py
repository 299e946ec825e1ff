"""The chain of a model whose tensors are stand-ins: as `stowage.fit` would measure it on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from stowage.errors import StowageError
from stowage.estimates.roofline import EstimatedWork
from stowage.torch.layers.discover import find_layers
from stowage.torch.layers.stage import Stage
from stowage.torch.layers.switches import Caches, checkpoints_itself, without_skipping
from stowage.torch.measuring.workload import backward
from stowage.torch.profiling.profiler import Profile, Profiler


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """Attributes:
    profile: Also of a plain step.
    is_chain: Else its layers are replayed apart from each other, and nothing leaves the GPU.
    """

    profile: Profile
    is_chain: bool


def plain_step(work: EstimatedWork) -> tuple[float, int]:
    """Its seconds, and its highest memory beyond what is there before it, as gradients."""
    clock = work.clock()
    begin = clock.now()
    with work.meter() as meter, meter.span("step"):
        backward(work.loss(work.forward()))
    span = meter.spans["step"]
    return clock.seconds(begin, clock.now()), span.peak - span.before


def layer_profile(model: nn.Module, work: EstimatedWork) -> LayerProfile:
    """Of a model that nobody else uses, under a FakeTensorMode and around `work`'s counters.

    Raises `StowageError` where the model has no layers that can be replayed.
    """
    for name, module in model.named_modules():
        if checkpoints_itself(module):
            raise StowageError(
                f"{name or 'the model'} checkpoints its layers itself: turn that off to have a plan"
            )
    Caches(model)
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    with without_skipping(model):
        plain = plain_step(work)
        found = find_layers(model, lambda: (work.forward(), None)[1], None, may_be_apart=True)
        stages = [
            Stage(name, modules) for name, modules in zip(found.names, found.modules, strict=True)
        ]
        profiler = Profiler(model, stages, found.input_slots, work, lambda *_: None)
        try:
            profile = profiler.of_layers(type(model).__name__, 0, selective=True)
        except torch._subclasses.fake_tensor.DataDependentOutputException as error:
            raise StowageError("a layer reads what tensors contain when it is replayed") from error
    return LayerProfile(profile.beside_plain(*plain), found.is_chain)

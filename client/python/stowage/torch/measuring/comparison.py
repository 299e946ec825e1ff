"""Compares a step under a schedule with one of plain training, once, when a model is fitted.

A recomputation that reads what has changed since the layer's forward gives other gradients. Where
it saves tensors of the same sizes, nothing else tells: the sums of the gradients do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from stowage.errors import NotAChainError
from stowage.torch.distributed.collectives import without_collectives
from stowage.torch.distributed.sharding import part_of
from stowage.torch.measuring.model_state import same_state
from stowage.torch.measuring.workload import Workload, metered_step, seconds_of_step, synchronize

# Steps are equal to the bit, or up to rounding; what is lost is seldom so small. The first is
# relative to a parameter's gradient, the second to what rounding does to it: some gradients, as
# that of the bias of attention's keys, are nothing but rounding.
_TOLERANCE = 1e-2
_ROUNDINGS = 4

# What the loss is multiplied with to have gradients rounded otherwise; exact in every type.
_FACTOR = 0.75

# What only makes kernels and pools takes less.
_LEAST_COMPILING_SECONDS = 0.1

_LOSS = "the loss"


class StepSums(dict[str, tuple[float, float]]):
    """By parameter: the sum of its gradient, and of the gradient's absolute values."""


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """What steps of plain training take and give."""

    seconds: float
    peak_bytes: int  # beyond parameters and gradients
    sums: StepSums
    # By parameter, and of the loss: how far apart two steps are, of which one rounds otherwise.
    # None: not known.
    rounding: Mapping[str, float] | None


def plain_steps(model: nn.Module, work: Workload) -> PlainSteps:
    """From where generators and buffers are. Requires: `unchanged`, and gradients that are zero."""
    with same_state(model, work), without_collectives(model):
        begin = time.perf_counter()
        one = _step(work, _FACTOR)  # makes kernels and pools as well
        synchronize(work.device)
        first = time.perf_counter() - begin
    sums = StepSums({_LOSS: (one, abs(one)), **_sums(model, _FACTOR)})
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(-_FACTOR)
    # Adds its gradients to those of the first.
    second = metered_step(work)
    # The first has compiled something, where the second, though it is metered, is so much shorter.
    has_compiled = work.ranks.any_of(first > 2 * second.seconds + _LEAST_COMPILING_SECONDS)
    apart = {name: size for name, (_, size) in _sums(model).items()}
    is_enough = work.is_enough(first) and not has_compiled
    seconds = first if is_enough else seconds_of_step(work)
    return PlainSteps(seconds, second.peak, sums, {_LOSS: abs(one - second.loss), **apart})


def plain_step(model: nn.Module, work: Workload, seconds: float, peak_bytes: int) -> PlainSteps:
    """The same of a model whose steps are known to take so much. Requires: `unchanged`."""
    with same_state(model, work), without_collectives(model):
        loss = _step(work)
    return PlainSteps(seconds, peak_bytes, sums_of(model, loss), None)


def sums_of(model: nn.Module, loss: float) -> StepSums:
    """Of the model's gradients after a step of this loss."""
    return StepSums({_LOSS: (loss, abs(loss)), **_sums(model)})


def _step(work: Workload, factor: float = 1.0) -> float:
    loss = work.loss(work.forward())
    value = float(loss.detach())
    if factor != 1.0:
        loss = loss * factor
    loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
    return value


def _sums(model: nn.Module, factor: float = 1.0) -> dict[str, tuple[float, float]]:
    """Of gradients that are `factor` times as large."""
    sums = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            gradient = part_of(parameter.grad)
            if gradient.is_complex():
                gradient = torch.view_as_real(gradient.resolve_conj())
            gradient = gradient.double()
            sums[name] = (float(gradient.sum()) / factor, float(gradient.abs().sum()) / factor)
    return sums


def why_not_compared(plain: PlainSteps | None) -> str:
    """Why no step can be compared with plain training's; "": it can be."""
    why = "plain training runs out of memory"
    if plain is not None:
        if plain.rounding is None or can_be_compared(plain.sums, plain.rounding):
            return ""
        why = (
            f"the losses of two steps on the sample are {plain.rounding[_LOSS]:.2g} apart, of "
            f"{plain.sums[_LOSS][0]:.4g}"
        )
    return f"loss and gradients were not compared with plain training's: {why}"


def can_be_compared(plain: StepSums, rounding: Mapping[str, float]) -> bool:
    """Whether plain steps are alike: not of a model that gives something else each time."""
    return rounding[_LOSS] <= _TOLERANCE * plain[_LOSS][1]


def first_difference(plain: StepSums, other: StepSums, rounding: Mapping[str, float]) -> str | None:
    """The first parameter whose gradient is another one, or the loss; None: all are alike."""
    for name, (total, size) in plain.items():
        other_total, other_size = other.get(name, (0.0, 0.0))
        allowed = _TOLERANCE * size + _ROUNDINGS * rounding.get(name, 0.0)
        is_lost = size > 0 and other_size == 0
        if is_lost or abs(total - other_total) > allowed or abs(size - other_size) > allowed:
            return name
    return None


def compare_steps(plain: StepSums, scheduled: StepSums, rounding: Mapping[str, float]) -> None:
    """Raises `NotAChainError` naming the first parameter whose gradient is another one."""
    name = first_difference(plain, scheduled, rounding)
    if name is not None:
        raise NotAChainError(
            f"{name} has another gradient under the schedule than in plain training: a layer "
            "reads something that has changed when it is recomputed, such as a list or a global "
            "variable; pass it as an argument, or leave the layer out, with layers="
            if name != _LOSS
            else "the loss is another one under the schedule than in plain training: a layer "
            "changes something beside its output, such as a list among its arguments; make "
            "the layer return it, or leave the layer out, with layers="
        )

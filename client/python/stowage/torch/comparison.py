"""Compares a step under a schedule with one of plain training, once, when a model is fitted.

A recomputation that reads what has changed since the layer's forward gives other gradients. Where
it saves tensors of the same sizes, nothing else tells: the sums of the gradients do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import torch
from torch import nn

from stowage.errors import NotAChainError
from stowage.torch.model_state import same_state, unchanged
from stowage.torch.workload import Workload

# Steps are equal to the bit, or up to rounding; what is lost is seldom so small. The first is
# relative to a parameter's gradient, the second to what rounding does to it: some gradients, as
# that of the bias of attention's keys, are nothing but rounding.
_TOLERANCE = 1e-2
_ROUNDINGS = 4

# What the loss is multiplied with to have gradients rounded otherwise; exact in every type.
_FACTOR = 0.75

_LOSS = "the loss"


class StepSums(dict[str, tuple[float, float]]):
    """By parameter: the sum of its gradient, and of the gradient's absolute values."""


def sums_of_step(model: nn.Module, work: Workload) -> StepSums:
    """Of one step from where generators and buffers are; leaves them there."""
    with unchanged(model, work):
        value = _step(work)
        return StepSums({_LOSS: (value, abs(value)), **_sums(model)})


def rounding_of_step(model: nn.Module, work: Workload) -> dict[str, float]:
    """By parameter: how far apart two plain steps are, of which one rounds otherwise."""
    with unchanged(model, work):
        with same_state(model, work):
            one = _step(work, _FACTOR)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(-_FACTOR)
        # The second step adds its gradients to those of the first.
        other = _step(work)
        apart = {name: size for name, (_, size) in _sums(model).items()}
        return {_LOSS: abs(one - other), **apart}


def _step(work: Workload, factor: float = 1.0) -> float:
    loss = work.loss(work.forward())
    value = float(loss.detach())
    if factor != 1.0:
        loss = loss * factor
    loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
    return value


def _sums(model: nn.Module) -> dict[str, tuple[float, float]]:
    sums = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            gradient = parameter.grad.double()
            sums[name] = (float(gradient.sum()), float(gradient.abs().sum()))
    return sums


def plain_step(
    model: nn.Module, work: Workload, *, fits: bool
) -> tuple[StepSums | None, Mapping[str, float], str]:
    """What a step of plain training gives, up to which rounding, and why there is no such step.

    `fits` is whether plain training fits into the device's memory as far as is known.
    """
    why = "plain training runs out of memory"
    if fits:
        with contextlib.suppress(torch.OutOfMemoryError):
            plain, rounding = sums_of_step(model, work), rounding_of_step(model, work)
            if can_be_compared(plain, rounding):
                return plain, rounding, ""
            why = (
                f"the losses of two plain steps on the sample are {rounding[_LOSS]:.2g} apart, of "
                f"{plain[_LOSS][0]:.4g}"
            )
    return None, {}, f"loss and gradients were not compared with plain training's: {why}"


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

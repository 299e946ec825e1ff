"""Compares a step under a schedule with one of plain training, once, when a model is fitted.

What leaves a layer by another way than its return value (an attribute, a list, a hook) gets no
gradient from the executor, which cannot see it: the sums of the gradients tell.
"""

from __future__ import annotations

from torch import nn

from stowage.errors import NotAChainError
from stowage.torch.workload import Workload, unchanged

# Steps are equal to the bit, or up to rounding; what is lost is seldom so small. The first is
# relative to a parameter's gradient, the second to the largest one: some gradients, as that of the
# bias of attention's keys, are nothing but rounding.
_TOLERANCE = 1e-2
_ROUNDING = 1e-3


_LOSS = "the loss"


class StepSums(dict[str, tuple[float, float]]):
    """By parameter: the sum of its gradient, and of the gradient's absolute values."""


def sums_of_step(model: nn.Module, work: Workload) -> StepSums:
    """Of one step from where generators and buffers are; leaves them there."""
    with unchanged(model, work.device):
        loss = work.loss(work.forward())
        value = float(loss.detach())
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        sums = StepSums({_LOSS: (value, abs(value))})
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                gradient = parameter.grad.double()
                sums[name] = (float(gradient.sum()), float(gradient.abs().sum()))
    return sums


def first_difference(one: StepSums, other: StepSums) -> str | None:
    """The first parameter whose gradient is another one, or the loss; None: all are alike."""
    largest = max(size for name, (_, size) in one.items() if name != _LOSS or len(one) == 1)
    for name, (total, size) in one.items():
        other_total, other_size = other.get(name, (0.0, 0.0))
        allowed = _TOLERANCE * size + (0 if name == _LOSS else _ROUNDING * largest)
        if abs(total - other_total) > allowed or abs(size - other_size) > allowed:
            return name
    return None


def compare_steps(plain: StepSums, scheduled: StepSums) -> None:
    """Raises `NotAChainError` naming the first parameter whose gradient is another one."""
    name = first_difference(plain, scheduled)
    if name is not None:
        raise NotAChainError(
            f"{name} has another gradient under the schedule than in plain training: a tensor "
            "leaves a layer by another way than its return value (an attribute, a list, a "
            "hook); make the layer return it, or leave the layer out, with layers="
            if name != _LOSS
            else "the loss is another one under the schedule than in plain training: a layer "
            "changes something beside its output, such as a list among its arguments; make "
            "the layer return it, or leave the layer out, with layers="
        )

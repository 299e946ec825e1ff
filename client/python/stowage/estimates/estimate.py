"""The memory of a step of training, from a model's code and a sample's sizes."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from stowage.errors import StowageError
from stowage.estimates.gpu_choices import GpuChoices, as_on_a_gpu
from stowage.estimates.live_bytes import LiveBytes
from stowage.estimates.places import Places
from stowage.estimates.stand_ins import built, stand_in, stand_ins
from stowage.native import format_bytes
from stowage.torch.structure import put_tensors, take_tensors, tensors_of
from stowage.torch.wishes import caller_of, loss_of


@dataclass(frozen=True, slots=True)
class Component:
    """Bytes of one kind at a peak.

    Attributes:
        name: "weights" (buffers included), "gradients", "optimizer" (its state), "sample",
            "activations" (all else that a step makes: what the backward needs, and what is
            temporary).
        bytes: Of storages, each counted once.
    """

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class StepPeak:
    """The highest memory of a part of a step.

    Attributes:
        part: "forward", "backward" or "optimizer".
        place: What runs then: a module, an operator.
        components: What is there then, the largest first.
    """

    part: str
    place: str
    components: tuple[Component, ...]

    @property
    def bytes(self) -> int:
        return sum(component.bytes for component in self.components)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a step takes. Prints as a table.

    Attributes:
        peaks: Of the forward, the backward and the optimizer's step.
        notes: What the estimate assumes.
    """

    peaks: tuple[StepPeak, ...]
    notes: tuple[str, ...] = ()

    @property
    def peak(self) -> StepPeak:
        return max(self.peaks, key=lambda peak: peak.bytes)

    @property
    def peak_bytes(self) -> int:
        """Of tensors: without a GPU's context, libraries' workspaces and the allocator's slack."""
        return self.peak.bytes

    def __str__(self) -> str:
        names = list(dict.fromkeys(c.name for peak in self.peaks for c in peak.components))
        lines = [f"{'peak of':10}{'total':>12}" + "".join(f"{name:>13}" for name in names)]
        for peak in self.peaks:
            sizes = {component.name: component.bytes for component in peak.components}
            lines.append(
                f"{peak.part:10}{format_bytes(peak.bytes):>12}"
                + "".join(f"{format_bytes(sizes.get(name, 0)):>13}" for name in names)
            )
        lines.append(f"highest in the {self.peak.part}, at {self.peak.place}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def estimate(
    model: nn.Module | Callable[[], nn.Module],
    sample: Any,
    *,
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    autocast: torch.dtype | None = None,
    device: str = "cuda",
) -> Estimate:
    """The memory of a step of training, without running it.

    The model's own code, its backward and the optimizer's step run with tensors that have sizes and
    no content, so that no GPU is needed and no memory for them. Weights, gradients, buffers and
    modes are afterwards as they were.

    Args:
        model: A module, on any device or on "meta"; or what makes one, as a class or a lambda,
            which is then made without memory.
        sample: What the model is called with: a tensor, a tuple of arguments, or a dict of keyword
            arguments. Its contents are not read.
        loss: Of the model's output. None: the output's `loss`, or the mean of its tensors.
        optimizer: What makes it of the parameters, as `torch.optim.AdamW`; None: there is none.
        autocast: The type of `torch.autocast` around forward and loss; None: it is off.
        device: "cuda": with a GPU's kernels of attention, types of autocast and steps of
            optimizers; "cpu": with a CPU's.

    Raises:
        StowageError: The model's code reads what tensors contain, or the model is sharded. Names
            the line, and what to do.
    """
    if device not in ("cuda", "cpu"):
        raise ValueError(f"device: is {device!r}; pass 'cuda' or 'cpu'")
    if isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            "optimizer: is one that has parameters; pass what makes it, as torch.optim.AdamW or "
            "lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)"
        )
    module = built(model)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode, stand_ins(module), _nothing_is_packed():
            step = _Step(
                module, _without_content(sample), loss or loss_of, optimizer, autocast, device
            )
            return Estimate(tuple(step.peaks()), step.notes)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise StowageError(
            f"the model reads what a tensor contains, in {_line_of(error)}, which an estimate does "
            "not know: leave the arguments out that it depends on, or measure the model by "
            "stowage.fit"
        ) from error


class _Step:
    def __init__(
        self,
        model: nn.Module,
        sample: Any,
        loss: Callable[[Any], Tensor],
        optimizer: Callable[[Any], torch.optim.Optimizer] | None,
        autocast: torch.dtype | None,
        device: str,
    ) -> None:
        is_gpu = device == "cuda"
        self._model, self._sample, self._loss = model, sample, loss
        self._autocast = autocast
        self._choices = GpuChoices() if is_gpu else contextlib.nullcontext()
        self._parameters = list(model.parameters())
        self._places = Places(model)
        self._live = LiveBytes(self._places.name_of)
        self._optimizer = optimizer(self._parameters) if optimizer is not None else None
        if is_gpu and self._optimizer is not None:
            as_on_a_gpu(self._optimizer)
        self.notes = ("bytes of tensors: a GPU's context, workspaces and slack come on top",)

    def peaks(self) -> Iterator[StepPeak]:
        live = self._live
        live.count(self._model.buffers(), "weights")
        live.count(self._parameters, "weights")
        live.count(tensors_of(self._sample), "sample")
        hooks = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda parameter: live.count([parameter.grad], "gradients")
            )
            for parameter in self._parameters
            if parameter.requires_grad
        ]
        try:
            with live, self._places, self._choices:
                if self._optimizer is not None:
                    self._make_state(self._optimizer)
                live.restart_peak()
                loss = self._forward()
                yield self._peak("forward")
                torch.autograd.backward([loss])
                del loss
                yield self._peak("backward")
                if self._optimizer is not None:
                    self._optimizer.step()
                    yield self._peak("optimizer")
        finally:
            for hook in hooks:
                hook.remove()

    def _make_state(self, optimizer: torch.optim.Optimizer) -> None:
        """By a step before the one that counts: the first step has no state in its backward."""
        for parameter in self._parameters:
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self._live.count(tensors_of(list(map(dict, optimizer.state.values()))), "optimizer")

    def _forward(self) -> Tensor:
        with contextlib.ExitStack() as stack:
            if self._autocast is not None:
                stack.enter_context(torch.autocast("cpu", self._autocast))
            loss = self._loss(caller_of(self._model, self._sample)())
        torch.clear_autocast_cache()
        return loss

    def _peak(self, part: str) -> StepPeak:
        found, place = self._live.peak, self._live.peak_place
        self._live.restart_peak()
        components = [Component(name, size) for name, size in found.most_common() if size]
        return StepPeak(part, place or "its begin", tuple(components))


def _without_content(sample: Any) -> Any:
    tensors: list[Tensor] = []
    template = take_tensors(sample, tensors)
    made = {id(tensor): stand_in(tensor) for tensor in tensors}  # labels may be the input
    return put_tensors(template, [made[id(tensor)] for tensor in tensors])


@contextlib.contextmanager
def _nothing_is_packed() -> Iterator[None]:
    """transformers looks whether positions begin anew, and makes a mask where it cannot see it."""
    masks: Any = sys.modules.get("transformers.masking_utils")
    find = getattr(masks, "find_packed_sequence_indices", None)
    if find is None:
        yield
        return
    masks.find_packed_sequence_indices = lambda *_, **__: None
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = find


def _line_of(error: BaseException) -> str:
    """The innermost line of the model's code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(__file__)
    outer = [
        frame
        for frame in frames
        if "/torch/" not in frame.filename and not frame.filename.startswith(own)
    ]
    frame = outer[-1] if outer else frames[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.line})"

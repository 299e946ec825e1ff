"""The memory of a step of training, from a model's code and a sample's sizes."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from stowage.errors import StowageError
from stowage.estimates.calibration import (
    ANY_GPU,
    Calibration,
    Spread,
    cpu_name,
    interval_of,
    kind_of,
    known_ratios,
    spread_of,
)
from stowage.estimates.gpu_choices import GpuChoices, as_on_a_gpu
from stowage.estimates.gpus import Gpu, gpu_of
from stowage.estimates.layer_profile import LayerProfile, layer_profile, plain_step
from stowage.estimates.live_bytes import ACTIVATIONS, LiveBytes
from stowage.estimates.places import Places
from stowage.estimates.roofline import EstimatedWork, Roofline
from stowage.estimates.stand_ins import built, copy_without_content, sample_without_content
from stowage.estimates.verdicts import FITS, Verdict, verdict_of
from stowage.job import Job
from stowage.native import format_bytes
from stowage.torch.budget import MemoryUse
from stowage.torch.planning import job_of
from stowage.torch.structure import tensors_of
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
        spread: How far such estimates are off, on the first GPU that was asked for.
        notes: What the estimate assumes.
        verdicts: Of each GPU that was asked for, in that order.
        job: Where it was asked for: the step as a job for `Client.admit` and `stowage admit`, with
            times of the first GPU. None: the model's layers are no chain.
    """

    peaks: tuple[StepPeak, ...]
    spread: Spread
    notes: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    job: Job | None = field(default=None, repr=False)

    @property
    def peak(self) -> StepPeak:
        return max(self.peaks, key=lambda peak: peak.bytes)

    @property
    def peak_bytes(self) -> int:
        """Of tensors: without a GPU's context, libraries' workspaces and the allocator's slack."""
        return self.peak.bytes

    @property
    def interval(self) -> tuple[int, int]:
        """The lowest and the highest peak to expect, in bytes: see `Spread.covers`."""
        return interval_of(self.peaks, self.spread)

    def __str__(self) -> str:
        names = list(dict.fromkeys(c.name for peak in self.peaks for c in peak.components))
        lines = [f"{'peak of':10}{'total':>12}" + "".join(f"{name:>13}" for name in names)]
        for peak in self.peaks:
            sizes = {component.name: component.bytes for component in peak.components}
            lines.append(
                f"{peak.part:10}{format_bytes(peak.bytes):>12}"
                + "".join(f"{format_bytes(sizes.get(name, 0)):>13}" for name in names)
            )
        low, high = map(format_bytes, self.interval)
        highest = format_bytes(self.peak_bytes)
        lines.append(f"peak {highest}, between {low} and {high} ({self.spread})")
        lines.append(f"highest in the {self.peak.part}, at {self.peak.place}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, *map(str, self.verdicts)])


def estimate(
    model: nn.Module | Callable[[], nn.Module],
    sample: Any,
    *,
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    autocast: torch.dtype | None = None,
    device: str = "cuda",
    gpu: str | Gpu | Sequence[str | Gpu] = (),
    offload: bool = True,
    job: bool = False,
    calibration: Calibration | str | os.PathLike[str] | None = None,
) -> Estimate:
    """The memory of a step of training, without running it, and whether it fits a GPU.

    The model's own code, its backward and the optimizer's step run with tensors that have sizes and
    no content, so that no GPU is needed and no memory for them. That is done with a copy of the
    model, so that weights, gradients, buffers and modes stay as they are; tables that its code
    keeps outside of it, as by functools.cache, should not be made in an estimate. One estimate runs
    at a time.

    Args:
        model: A module, on any device or on "meta"; or what makes one, as a class or a lambda,
            which is then made without memory.
        sample: What the model is called with: a tensor, a tuple of arguments, or a dict of keyword
            arguments. Its contents are not read.
        loss: Of the model's output; may be a module with parameters of its own, which are trained,
            too. None: the output's `loss`, or the mean of its tensors.
        optimizer: What makes it of the parameters, as `torch.optim.AdamW`; None: there is none.
        autocast: The type of `torch.autocast` around forward and loss; None: it is off.
        device: "cuda": with a GPU's kernels of attention, types of autocast and steps of
            optimizers; "cpu": with a CPU's.
        gpu: Cards, or their names (see `gpus`). Each gets a verdict: whether the step fits; where
            it does not, the plan of `stowage.fit` with which it does, and how much longer that
            takes; or the least memory, and what would help.
        offload: Whether plans may send values to the host's memory, as those of `stowage.fit`.
        job: Whether to make `Estimate.job`, for which all layers are measured; needs a `gpu`.
        calibration: Ratios of runs on the device, or their file, of which the interval is then;
            None: of those that come with the package.

    Raises:
        StowageError: The model's code reads what tensors contain, or the model is sharded or
            quantized, or the optimizer cannot be estimated. Names the line, and what to do.
    """
    if device not in ("cuda", "cpu"):
        raise ValueError(f"device: is {device!r}; pass 'cuda' or 'cpu'")
    if isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            "optimizer: is one that has parameters; pass what makes it, as torch.optim.AdamW or "
            "lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)"
        )
    cards = [gpu_of(card) for card in ([gpu] if isinstance(gpu, (str, Gpu)) else gpu)]
    if job and not cards:
        raise ValueError("job: its times are those of a GPU: pass one as gpu=, as 'H100-80G'")
    own = known_ratios(calibration)
    made = built(model)
    kind = kind_of(made, autocast)
    name = cpu_name() if device == "cpu" else cards[0].name if cards else ANY_GPU
    with (
        _ONE_AT_A_TIME,
        torch.enable_grad(),
        FakeTensorMode(allow_non_fake_inputs=True),
        _nothing_is_packed(),
    ):
        step = _Step(made, sample, loss or loss_of, optimizer, autocast, device)
        peaks = tuple(step.peaks())
        highest = max(peak.bytes for peak in peaks)
        last = peaks[-1].bytes
        plain = max(peak.bytes for peak in peaks[:2])
        found = step.job(cards[0], plain, last) if job else None
        verdicts = tuple(
            replace(
                step.verdict(card, highest, last, offload=offload),
                interval=interval_of(peaks, spread_of(own, card.name, kind)),
            )
            for card in cards
        )
        return Estimate(peaks, spread_of(own, name, kind), step.notes, verdicts, found)


_ONE_AT_A_TIME = threading.RLock()  # what is replaced for an estimate is the process's


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
        self._model, self._sample = copy_without_content(model), sample_without_content(sample)
        self._loss = copy_without_content(loss) if isinstance(loss, nn.Module) else loss
        trained = (self._model, self._loss) if isinstance(self._loss, nn.Module) else (self._model,)
        self._parameters = list(dict.fromkeys(p for part in trained for p in part.parameters()))
        self._buffers = [buffer for part in trained for buffer in part.buffers()]
        self._autocast = autocast
        self._choices = GpuChoices() if is_gpu else contextlib.nullcontext()
        self._places = Places(self._model)
        self._live = LiveBytes(self._places.name_of)
        self._optimizer = self._made(optimizer) if optimizer is not None else None
        if is_gpu and self._optimizer is not None:
            as_on_a_gpu(self._optimizer)
        notes = ["bytes of tensors: a GPU's context, workspaces and slack come on top"]
        if not model.training:
            notes.append("the model is in eval mode: dropout and the like keep nothing")
        self._notes = notes
        self._layers_on: dict[Gpu, LayerProfile | None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._notes))

    def _made(self, optimizer: Callable[[Any], torch.optim.Optimizer]) -> torch.optim.Optimizer:
        made = optimizer(self._parameters)
        known = set(map(id, self._parameters))
        for group in made.param_groups:
            if any(id(parameter) not in known for parameter in group["params"]):
                raise StowageError(
                    "optimizer: has parameters that it was not given: make its groups of those, as "
                    "lambda parameters: torch.optim.AdamW([{'params': list(parameters)}])"
                )
        return made

    def peaks(self) -> list[StepPeak]:
        live = self._live
        live.count(self._buffers, "weights")
        live.count(self._parameters, "weights")
        live.count(tensors_of(self._sample), "sample")
        with live, self._places, self._choices, self._counting_gradients():
            live.restart_peak()
            loss = self._reading("the model", self._forward)
            found = [self._peak("forward")]
            self._reading("the model", functools.partial(torch.autograd.backward, [loss]))
            del loss
            found.append(self._peak("backward"))
            if self._optimizer is None:
                return found
            self._reading("the optimizer", self._optimizer.step)  # makes the state
            self._count_state(self._optimizer)
            live.restart_peak()
            self._reading("the optimizer", self._optimizer.step)
            self._count_state(self._optimizer)  # which may be another one
        # A step that is not the first one finds the state.
        size = live.by_purpose["optimizer"]
        found = [replace(peak, components=_with("optimizer", size, peak)) for peak in found]
        return [*found, self._peak("optimizer")]

    @contextlib.contextmanager
    def _counting_gradients(self) -> Iterator[None]:
        def count(parameter: Tensor) -> None:
            self._live.count([parameter.grad], "gradients")

        trained = [parameter for parameter in self._parameters if parameter.requires_grad]
        handles = [
            parameter.register_post_accumulate_grad_hook(count)  # type: ignore[no-untyped-call]
            for parameter in trained
        ]
        try:
            yield
        finally:
            for handle in handles:  # they would hold the model, which no collector sees
                handle.remove()

    def _count_state(self, optimizer: torch.optim.Optimizer) -> None:
        self._live.count(tensors_of(list(map(dict, optimizer.state.values()))), "optimizer")

    def verdict(self, gpu: Gpu, peak_bytes: int, last_bytes: int, *, offload: bool) -> Verdict:
        """After `peaks`, whose highest and last ones have so many bytes."""
        if peak_bytes <= gpu.usable_bytes:
            roofline = Roofline(gpu)
            return Verdict(gpu, FITS, peak_bytes, seconds=self._seconds(roofline))
        # Without an optimizer the last part is the backward, which a plan may change.
        after = 0 if self._optimizer is None else last_bytes
        use = self._use
        return verdict_of(gpu, peak_bytes, use, after, lambda: self._layers(gpu), offload=offload)

    def job(self, gpu: Gpu, plain_bytes: int, last_bytes: int) -> Job | None:
        """Right after `peaks`: the highest of forward and backward, and the last of all."""
        use, layers = self._use, self._layers(gpu)
        if layers is None or not layers.is_chain:
            self._notes.append("there is no job: the model's layers are no chain")
            return None
        made = 0 if self._optimizer is None else max(0, last_bytes - use.total)
        profile = replace(layers.profile, plain_peak_bytes=max(0, plain_bytes - use.total))
        return job_of(profile.chain, profile, use, made)

    def _work(self, roofline: Roofline) -> EstimatedWork:
        step = self._output, self._loss_of, torch.device("cpu"), tensors_of(self._sample)
        return EstimatedWork(self._live, roofline, *step)

    @functools.cached_property
    def _use(self) -> MemoryUse:
        """What is there between steps. Asked for right after `peaks`."""
        gc.collect()
        size = self._live.by_purpose
        trained = sum(parameter.nbytes for parameter in self._parameters if parameter.requires_grad)
        # What steps leave in the model stays, as a mask that is made once.
        stays = size["weights"] + size["sample"] + size[ACTIVATIONS]
        return MemoryUse(stays, trained, size["optimizer"])

    def _seconds(self, roofline: Roofline) -> float | None:
        """Of another step. None: it fails, as where a list of losses has grown."""
        try:
            with self._live, self._places, self._choices, roofline:
                seconds, _ = plain_step(self._work(roofline))
        except Exception as error:
            self._notes.append(f"another step fails, so none is timed: {error}")
            return None
        return seconds

    def _layers(self, gpu: Gpu) -> LayerProfile | None:
        """None: there are none that could be replayed, or the model cannot run so often."""
        if gpu not in self._layers_on:
            self._layers_on[gpu] = self._measured_layers(Roofline(gpu))
        return self._layers_on[gpu]

    def _measured_layers(self, roofline: Roofline) -> LayerProfile | None:
        work = self._work(roofline)
        try:
            with self._live, self._places, self._choices, roofline:
                found: LayerProfile = self._reading(
                    "the model", lambda: layer_profile(self._model, work)
                )
        except Exception as error:
            self._notes.append(f"no plan is looked for: {error}")
            return None
        return found

    def _reading(self, who: str, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            inside = f" of {self._places.module}" if self._places.module else ""
            raise StowageError(
                f"{who} reads what a tensor contains, in {_line_of(error)}{inside}, which an "
                "estimate does not know: leave out what it depends on, or measure the model by "
                "stowage.fit"
            ) from error

    def _forward(self) -> Tensor:
        with self._casting():
            loss = self._loss(caller_of(self._model, self._sample)())
        torch.clear_autocast_cache()
        return loss

    def _output(self) -> Any:
        with self._casting():
            return caller_of(self._model, self._sample)()

    def _loss_of(self, output: Any) -> Tensor:
        with self._casting():
            return self._loss(output)

    def _casting(self) -> contextlib.AbstractContextManager[Any]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast("cpu", self._autocast)

    def _peak(self, part: str) -> StepPeak:
        found, place = self._live.peak, self._live.peak_place
        self._live.restart_peak()
        components = [Component(name, size) for name, size in found.most_common() if size]
        return StepPeak(part, place or "its begin", tuple(components))


def _with(name: str, size: int, peak: StepPeak) -> tuple[Component, ...]:
    components = [*peak.components, *([Component(name, size)] if size else [])]
    return tuple(sorted(components, key=lambda component: -component.bytes))


@contextlib.contextmanager
def _nothing_is_packed() -> Iterator[None]:
    """transformers looks whether positions begin anew, and makes a mask where it cannot see it."""
    masks: Any = sys.modules.get("transformers.masking_utils")
    find = getattr(masks, "find_packed_sequence_indices", None)
    if find is None:
        yield
        return
    thread = threading.get_ident()

    def find_none(*args: Any, **kwargs: Any) -> Any:
        return None if threading.get_ident() == thread else find(*args, **kwargs)

    masks.find_packed_sequence_indices = find_none
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

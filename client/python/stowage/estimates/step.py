"""One step of training with stand-ins: its peaks, and what follows for a GPU."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from stowage.errors import StowageError
from stowage.estimates.hardware.gpu_choices import GpuChoices, as_on_a_gpu
from stowage.estimates.hardware.gpus import Gpu
from stowage.estimates.layer_profile import LayerProfile, layer_profile, plain_step
from stowage.estimates.live_bytes import ACTIVATIONS, LiveBytes, bytes_of
from stowage.estimates.places import Places
from stowage.estimates.ranks import (
    BUCKETS,
    buckets_of,
    counting_groups,
    gradients_are_buckets,
    is_wrapped,
)
from stowage.estimates.roofline import EstimatedWork, Roofline
from stowage.estimates.stand_ins import copy_without_content, fill, sample_without_content
from stowage.estimates.verdicts import FITS, Verdict, verdict_of
from stowage.job import Job
from stowage.torch.arguments import caller_of
from stowage.torch.choosing.budget import MemoryUse
from stowage.torch.choosing.planning import job_of
from stowage.torch.distributed.sharding import is_sharded
from stowage.torch.layers.structure import tensors_of


@dataclass(frozen=True, slots=True)
class Component:
    """Bytes of one kind at a peak.

    Attributes:
        name: "weights" (buffers included), "gradients", "optimizer" (its state), "sample",
            "activations" (all else that a step makes: what the backward needs, and what is
            temporary). Of ranks also "gathered weights" (by `fully_shard`, for a while) and
            "buckets" (of DistributedDataParallel).
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


class Step:
    """Under a FakeTensorMode; the arguments are those of `estimate`, the model one that is made."""

    def __init__(
        self,
        model: nn.Module,
        sample: Any,
        loss: Callable[[Any], Tensor],
        *,
        optimizer: Callable[[Any], torch.optim.Optimizer] | None,
        autocast: torch.dtype | None,
        device: str,
        accumulation: int,
        ranks: int | None,
    ) -> None:
        is_gpu = device == "cuda"
        if ranks is None:
            model = copy_without_content(model)
        else:
            fill(model)
        self._model = model
        self._sample = sample_without_content(sample)
        self._loss = copy_without_content(loss) if isinstance(loss, nn.Module) else loss
        trained = (self._model, self._loss) if isinstance(self._loss, nn.Module) else (self._model,)
        self._parameters = list(dict.fromkeys(p for part in trained for p in part.parameters()))
        self._is_sharded = any(map(is_sharded, self._parameters))
        self._buffers = [buffer for part in trained for buffer in part.buffers()]
        self._buckets = buckets_of(self._model)
        self._are_buckets = gradients_are_buckets(self._model)
        self._autocast, self._accumulation = autocast, accumulation
        self._choices = GpuChoices() if is_gpu else contextlib.nullcontext()
        self._places = Places(self._model)
        self._live = LiveBytes(self._places.name_of)
        self._optimizer = self._made(optimizer) if optimizer is not None else None
        if is_gpu and self._optimizer is not None:
            as_on_a_gpu(self._optimizer)
        notes = ["bytes of tensors: a GPU's context, workspaces and slack come on top"]
        if not model.training:
            notes.append("the model is in eval mode: dropout and the like keep nothing")
        if ranks is not None:
            notes.append(f"memory of one of {ranks} ranks; times without what they send each other")
        if self._is_sharded:
            notes.append("what is gathered while GPUs compute was not measured: it may take more")
        if accumulation > 1:
            notes.append(f"times are of one of {accumulation} micro-batches")
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
        live.count(self._buckets.values(), BUCKETS)
        with self._counting(), self._counting_gradients():
            if self._accumulation > 1:  # all micro-batches but the first find gradients
                self._micro_step()
            found = self._micro_step()
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

    def _micro_step(self) -> list[StepPeak]:
        self._live.restart_peak()
        loss = self._reading("the model", self._forward)
        forward = self._peak("forward")
        self._reading("the model", functools.partial(torch.autograd.backward, [loss]))
        del loss
        return [forward, self._peak("backward")]

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        with self._live, self._places, self._choices, counting_groups(self._live):
            yield

    @contextlib.contextmanager
    def _counting_gradients(self) -> Iterator[None]:
        def count(parameter: Tensor) -> None:
            if self._are_buckets and parameter in self._buckets:
                parameter.grad = self._buckets[parameter]  # type: ignore[index]
            else:
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
        found = verdict_of(gpu, peak_bytes, use, after, lambda: self._layers(gpu), offload=offload)
        return replace(found, least_bytes=None) if self._is_sharded else found

    def job(self, gpu: Gpu, plain_bytes: int, last_bytes: int) -> Job | None:
        """Right after `peaks`: the highest of forward and backward, and the last of all."""
        use, layers = self._use, self._layers(gpu)
        if layers is None or not layers.is_chain:
            why = "are sharded" if self._is_sharded else "are no chain"
            self._notes.append(f"there is no job: the model's layers {why}")
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
        in_buckets = self._buckets if self._are_buckets else {}
        trained = [p for p in self._parameters if p.requires_grad and p not in in_buckets]
        # What steps leave in the model stays, as a mask that is made once.
        stays = size["weights"] + size["sample"] + size[BUCKETS] + size[ACTIVATIONS]
        return MemoryUse(stays, bytes_of(trained), size["optimizer"])

    def _seconds(self, roofline: Roofline) -> float | None:
        """Of another step. None: it fails, as where a list of losses has grown."""
        try:
            with self._counting(), roofline:
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
        if self._is_sharded:  # stowage.fit measures what its replays gather, and waits for
            self._notes.append(
                "no plan is looked for: layers are sharded; stowage.fit looks for one on GPUs"
            )
            return None
        work = self._work(roofline)
        # DistributedDataParallel adds no layers.
        model: Any = self._model.module if is_wrapped(self._model) else self._model
        try:
            with self._counting(), roofline:
                found: LayerProfile = self._reading("the model", lambda: layer_profile(model, work))
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

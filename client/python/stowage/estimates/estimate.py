"""The memory of a step of training, from a model's code and a sample's sizes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from stowage.estimates.biases import biases_in_place
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
from stowage.estimates.hardware.gpus import Gpu, gpu_of
from stowage.estimates.ranks import first_rank_of, replaced
from stowage.estimates.stand_ins import built
from stowage.estimates.step import Step, StepPeak
from stowage.estimates.verdicts import Verdict
from stowage.job import Job
from stowage.native import format_bytes
from stowage.torch.arguments import loss_of


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
        widths = {name: max(13, len(name) + 2) for name in names}
        lines = [f"{'peak of':10}{'total':>12}" + "".join(f"{n:>{widths[n]}}" for n in names)]
        for peak in self.peaks:
            sizes = {component.name: component.bytes for component in peak.components}
            lines.append(
                f"{peak.part:10}{format_bytes(peak.bytes):>12}"
                + "".join(f"{format_bytes(sizes.get(n, 0)):>{widths[n]}}" for n in names)
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
    accumulation: int = 1,
    ranks: int | None = None,
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
        accumulation: Micro-batches of a step, of which `sample` is one: with more than one there
            are gradients of earlier ones during forward and backward.
        ranks: Processes that train the model together, of which this is the first: then `model`
            makes it and spreads it over them itself, by `fully_shard`, `parallelize_module` or
            DistributedDataParallel. It finds a process group of so many, which talks to nobody.
        calibration: Ratios of runs on the device, or their file, of which the interval is then;
            None: of those that come with the package.

    Raises:
        StowageError: The model's code reads what tensors contain, or the model is sharded or
            quantized, or the optimizer cannot be estimated, or the process has a process group
            where there are `ranks`. Names the line, and what to do.
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
    device_name = cpu_name() if device == "cpu" else cards[0].name if cards else ANY_GPU
    for name, number in (("accumulation", accumulation), ("ranks", 1 if ranks is None else ranks)):
        if type(number) is not int or number < 1:
            raise ValueError(f"{name}: is {number!r}; it must be a whole number from 1 on")
        if number > _MOST:
            raise ValueError(f"{name}: is {number}; it must be at most {_MOST:,}")
    if ranks is not None and isinstance(model, nn.Module):
        raise TypeError("model: is a module; with ranks pass what makes and shards it, as a lambda")
    with (
        _ONE_AT_A_TIME,
        first_rank_of(ranks),
        torch.enable_grad(),
        _nothing_is_packed(),
        biases_in_place(),
    ):
        made = built(model)
        kind = kind_of(made, autocast)
        with FakeTensorMode(allow_non_fake_inputs=True):
            step = Step(
                made,
                sample,
                loss or loss_of,
                optimizer=optimizer,
                autocast=autocast,
                device=device,
                accumulation=accumulation,
                ranks=ranks,
            )
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
            return Estimate(peaks, spread_of(own, device_name, kind), step.notes, verdicts, found)


_MOST = 1_000_000  # ranks or micro-batches
_ONE_AT_A_TIME = threading.RLock()  # what is replaced for an estimate is the process's


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

    with replaced(masks, find_packed_sequence_indices=find_none):
        yield

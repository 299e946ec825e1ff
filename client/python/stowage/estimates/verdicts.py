"""Whether a step fits a GPU: as it is, with a plan, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stowage.answer import Answer
from stowage.errors import InfeasibleError
from stowage.estimates.hardware.gpus import Gpu
from stowage.estimates.layer_profile import LayerProfile
from stowage.model import Chain, Platform
from stowage.native import format_bytes, format_seconds
from stowage.torch.choosing.budget import MemoryUse
from stowage.torch.choosing.planning import Solving, find_plan, predicted_peak
from stowage.torch.choosing.route import IN_TURN_SOLVER

FITS = "fits"
FITS_WITH_A_PLAN = "fits with a plan"
DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a step of training on a GPU.

    Attributes:
        gpu: The card.
        outcome: "fits", "fits with a plan" or "does not fit".
        peak_bytes: Of the step as it is.
        least_bytes: Where it does not fit: no plan takes less of the whole step; else None, also
            where no plan could be looked for, as of layers that are sharded.
        seconds: Of a step, or micro-batch, that runs as the outcome says, on this GPU; None: not
            known.
        plan_bytes: Of the step with the plan, at its highest; None: there is none.
        slowdown: Of the plan: its time over that of the step as it is, less 1.
        answer: The plan, with its schedule; None: there is none.
        chain: The model's layers as they would be on this GPU, where a plan was found.
        advice: What would help, where it does not fit; else "".
        interval: The lowest and the highest peak of the step as it is; None: not known.
    """

    gpu: Gpu
    outcome: str
    peak_bytes: int
    least_bytes: int | None = None
    seconds: float | None = None
    plan_bytes: int | None = None
    slowdown: float = 0.0
    answer: Answer | None = None
    chain: Chain | None = None
    advice: str = ""
    interval: tuple[int, int] | None = None

    @property
    def is_sure(self) -> bool:
        """Whether the step as it is fits at both ends of the interval, or at neither."""
        low, high = self.interval or (self.peak_bytes, self.peak_bytes)
        usable = self.gpu.usable_bytes
        return high <= usable if self.outcome == FITS else low > usable

    def __str__(self) -> str:
        usable = f"{self.gpu.name}: {format_bytes(self.gpu.usable_bytes)} usable of "
        text = f"{usable}{format_bytes(self.gpu.memory_bytes)}: {self.outcome}"
        if self.outcome == DOES_NOT_FIT and self.least_bytes is None:
            text += " without a plan"
        if not self.is_sure:
            text += f", but {self._what_differs()}"
        if self.outcome == DOES_NOT_FIT:
            takes = format_bytes(self.least_bytes or self.peak_bytes)
            how = "" if self.least_bytes is None else " at least with a plan"
            return f"{text}, takes {takes}{how}; {self.advice}"
        if self.outcome == FITS_WITH_A_PLAN:
            text += f", {self.slowdown:+.1%}"
        if self.seconds is not None:
            text += f", about {format_seconds(self.seconds)}"
        host = self.host_bytes
        return f"{text}, with {format_bytes(host)} on the host" if host else text

    def _what_differs(self) -> str:
        """Which ends of the interval say otherwise than the peak."""
        ends = [end <= self.gpu.usable_bytes for end in self.interval or ()]
        does = "does not" if self.outcome == FITS else "does without a plan"
        if len(set(ends)) == 1:
            return f"each end of the interval {does}"
        return f"the interval's {'upper' if self.outcome == FITS else 'lower'} end {does}"

    @property
    def host_bytes(self) -> int:
        """Of the host's memory that the plan needs; 0 without transfers."""
        prediction = None if self.answer is None else self.answer.prediction
        return 0 if prediction is None else prediction.peak_host_bytes


def verdict_of(
    gpu: Gpu,
    peak_bytes: int,
    use: MemoryUse,
    after_bytes: int,
    find_layers: Callable[[], LayerProfile | None],
    *,
    offload: bool,
) -> Verdict:
    """Of a step that does not fit as it is.

    Args:
        peak_bytes: Of the step as it is.
        use: What stays on the GPU beside activations, the sample among the weights.
        after_bytes: The highest memory of what no plan changes, as the optimizer's step.
        find_layers: None: the model has none that could be replayed.
        offload: Whether plans may send values to the host's memory.
    """
    layers = find_layers()
    least = peak_bytes
    if layers is not None:
        try:
            planned = _planned(gpu, peak_bytes, use, layers, offload=offload)
            if planned is not None and after_bytes <= gpu.usable_bytes:
                return planned
            least = after_bytes
        except InfeasibleError as error:
            least = max(error.minimum_memory_bytes or peak_bytes, after_bytes)
    least = min(least, peak_bytes)
    return Verdict(gpu, DOES_NOT_FIT, peak_bytes, least, advice=_advice(use, least))


def _planned(
    gpu: Gpu, peak_bytes: int, use: MemoryUse, layers: LayerProfile, *, offload: bool
) -> Verdict | None:
    """None: no plan is better than none."""
    platform, solver, run = Platform(memory_bytes=0), "auto", "auto"
    if not layers.is_chain:
        solver, run = IN_TURN_SOLVER, "torch"
    elif offload:
        platform = Platform(
            memory_bytes=0,
            offload_bytes_per_second=gpu.link_bytes_per_second,
            prefetch_bytes_per_second=gpu.link_bytes_per_second,
        )
    profile = layers.profile
    solving = Solving(profile, platform, solver, None, None, {})
    budget = max(0, gpu.usable_bytes - use.total)
    planned, _ = find_plan(solving, budget, use, run, lambda *_: None)
    plain = profile.plain_seconds or 0.0
    answer = None if planned is None else planned.answer
    if answer is None or answer.prediction is None:
        return None
    activations = predicted_peak(profile, replace(platform, memory_bytes=budget), answer) or 0
    seconds = answer.prediction.makespan_seconds + profile.outside_seconds
    slowdown = seconds / plain - 1 if plain else 0.0
    return Verdict(
        gpu,
        FITS_WITH_A_PLAN,
        peak_bytes,
        seconds=seconds,
        plan_bytes=use.total + activations,
        slowdown=slowdown,
        answer=answer,
        chain=profile.chain,
    )


def _advice(use: MemoryUse, least: int) -> str:
    """What takes the most of the least that there is."""
    parts = {
        "a smaller batch or shorter samples": least - use.total,
        "to shard the optimizer's state, or take an optimizer with less": use.optimizer,
        "to shard the gradients": use.gradients,
        "to shard the weights, or hold them in half precision": use.weights,
    }
    return f"{max(parts, key=lambda name: parts[name])} would help most"

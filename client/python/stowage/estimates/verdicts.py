"""Whether a step fits a GPU: as it is, with a plan, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stowage.answer import Answer
from stowage.errors import InfeasibleError
from stowage.estimates.gpus import Gpu
from stowage.estimates.layer_profile import LayerProfile
from stowage.model import Chain, Platform
from stowage.native import format_bytes, format_seconds
from stowage.torch.budget import MemoryUse
from stowage.torch.planning import Solving, find_plan, predicted_peak
from stowage.torch.route import IN_TURN_SOLVER

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
        least_bytes: Where it does not fit: no plan takes less of the whole step; else None.
        seconds: Of a step that runs as the outcome says, on this GPU; None: not known.
        plan_bytes: Of the step with the plan, at its highest; None: there is none.
        slowdown: Of the plan: its time over that of the step as it is, less 1.
        answer: The plan, with its schedule; None: there is none.
        chain: The model's layers as they would be on this GPU, where a plan was found.
        advice: What would help, where it does not fit; else "".
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

    def __str__(self) -> str:
        usable = f"{self.gpu.name}: {format_bytes(self.gpu.usable_bytes)} usable of "
        text = f"{usable}{format_bytes(self.gpu.memory_bytes)}: {self.outcome}"
        if self.outcome == DOES_NOT_FIT:
            least = "" if self.least_bytes is None else f", takes {format_bytes(self.least_bytes)}"
            return f"{text}{least} at least; {self.advice}"
        if self.outcome == FITS_WITH_A_PLAN:
            text += f", {self.slowdown:+.1%}"
        return text if self.seconds is None else f"{text}, about {format_seconds(self.seconds)}"


def verdict_of(
    gpu: Gpu,
    peak_bytes: int,
    use: MemoryUse,
    after_bytes: int,
    find_layers: Callable[[], LayerProfile | None],
) -> Verdict:
    """Of a step that does not fit as it is.

    Args:
        peak_bytes: Of the step as it is.
        use: What stays on the GPU beside activations, the sample among the weights.
        after_bytes: The highest memory of what no plan changes, as the optimizer's step.
        find_layers: None: the model has none that could be replayed.
    """
    layers = find_layers()
    least = peak_bytes
    if layers is not None:
        try:
            planned = _planned(gpu, peak_bytes, use, layers)
            if planned is not None and after_bytes <= gpu.usable_bytes:
                return planned
            least = after_bytes
        except InfeasibleError as error:
            least = max(error.minimum_memory_bytes or peak_bytes, after_bytes)
    fixed = max(use.total, after_bytes)
    least = min(least, peak_bytes)
    return Verdict(gpu, DOES_NOT_FIT, peak_bytes, least, advice=_advice(gpu, use, fixed))


def _planned(gpu: Gpu, peak_bytes: int, use: MemoryUse, layers: LayerProfile) -> Verdict | None:
    """None: no plan is better than none."""
    platform, solver, run = Platform(memory_bytes=0), "auto", "auto"
    if layers.is_chain:
        platform = Platform(
            memory_bytes=0,
            offload_bytes_per_second=gpu.link_bytes_per_second,
            prefetch_bytes_per_second=gpu.link_bytes_per_second,
        )
    else:
        solver, run = IN_TURN_SOLVER, "torch"
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


def _advice(gpu: Gpu, use: MemoryUse, fixed: int) -> str:
    """What takes the most of what no plan changes."""
    if fixed < gpu.usable_bytes // 2:
        return "a smaller batch or shorter samples would help most"
    parts = {
        "shard the optimizer's state, or take an optimizer with less": use.optimizer,
        "shard the gradients": use.gradients,
        "shard the weights, or hold them in half precision": use.weights,
    }
    return f"to {max(parts, key=lambda name: parts[name])} would help most"

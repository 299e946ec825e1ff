"""What `fit` did to a model, for as long as the model is there."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from torch import nn

from stowage.answer import Answer
from stowage.errors import StowageError
from stowage.model import Platform
from stowage.native import format_bytes
from stowage.outcome import FirstSweep, StageFate
from stowage.torch.choosing.budget import MemoryUse
from stowage.torch.choosing.route import Route
from stowage.torch.distributed.wrapping import unwrapped
from stowage.torch.execution.coordinator import Coordinator, SeparateLayers
from stowage.torch.layers.switches import Caches
from stowage.torch.profiling.profiler import Profile


@dataclass(slots=True)
class Fitted:
    """What `fit` did to a model. Its text is one paragraph for people."""

    coordinator: Coordinator | SeparateLayers
    profile: Profile
    use: MemoryUse
    memory: int  # bytes of the whole job
    activations: int  # bytes for the chain's activations
    platform: Platform
    answer: Answer | None  # None: plain training fits
    source: str  # where the answer came from
    notes: tuple[str, ...]
    # Of a step's activations, those outside of the chain included; None: plain ran out of memory.
    predicted_peak_bytes: int | None
    route: Route
    caches: Caches
    measured_seconds: float | None = None
    measured_peak_bytes: int | None = None  # of activations, of the whole step

    @property
    def predicted_seconds(self) -> float | None:
        """Of a step, without the optimizer's."""
        if self.answer is None or self.answer.prediction is None:
            return self.profile.plain_seconds
        return self.answer.prediction.makespan_seconds + self.profile.outside_seconds

    def __str__(self) -> str:
        return _paragraph(self)


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What a schedule does with one layer."""

    name: str
    kept: str  # after the first forward: "all", "part", "output" or "nothing"
    recomputed: int  # forwards beyond the first, without reruns of what a part lacks
    offloaded: int  # times its value goes to host memory
    way: str = ""  # of a layer that is saved in part: the operators whose results it keeps


RUN_BY = {
    "plain": "as without Stowage",
    "torch": "layer by layer",
    "stowage": "by Stowage's executor",
}
_KEPT = {
    FirstSweep.KEEPS_SAVED: "all",
    FirstSweep.KEEPS_OUTPUT: "output",
    FirstSweep.KEEPS_NOTHING: "nothing",
}


def layers_of(found: Fitted) -> list[LayerReport]:
    """What the schedule does with each layer."""
    names = [stage.name for stage in found.coordinator.stages]
    explanation = found.answer.explanation if found.answer is not None else None
    if explanation is None:
        return [LayerReport(name, "all", 0, 0) for name in names]
    fates: dict[int, StageFate] = {fate.stage: fate for fate in explanation.stages}
    ways = _ways(found)
    return [
        LayerReport(
            name,
            "part" if i in ways else _KEPT[fates[i].first_sweep],
            fates[i].recomputed,
            fates[i].offloaded,
            ways.get(i, ""),
        )
        for i, name in enumerate(names, 1)
    ]


def _ways(found: Fitted) -> dict[int, str]:
    """By layer that is saved in part: what it keeps."""
    schedule = found.answer.schedule if found.answer is not None else None
    return {
        operation.stage: found.coordinator.stages[operation.stage - 1]
        .ways[operation.save_option - 1]
        .name
        for operation in (schedule.operations if schedule is not None else ())
        if operation.save_option
    }


def _paragraph(found: Fitted) -> str:
    """What `fit` did, in one paragraph."""
    profile = found.profile
    plain = (
        "plain training runs out of memory"
        if profile.plain_peak_bytes is None
        else f"plain training takes {format_bytes(profile.plain_peak_bytes)} and "
        f"{seconds_text(profile.plain_seconds)} a step"
    )
    is_chain = found.coordinator.is_chain
    what = "a chain of {} layers" if is_chain else "{} calls of layers, which are no chain"
    begin = (
        f"stowage: {what.format(len(found.coordinator.stages))}, from "
        f"{found.coordinator.stages[0].name} to {found.coordinator.stages[-1].name}; "
        f"{format_bytes(found.activations)} for activations, of {format_bytes(found.memory)}; "
        f"{plain}. "
    )
    if found.answer is None:
        return begin + "It fits, so nothing is recomputed." + _notes(found)
    layers = layers_of(found)
    recomputed = sum(layer.recomputed > 0 for layer in layers)
    offloaded = sum(layer.offloaded > 0 for layer in layers)
    in_part = sum(layer.kept == "part" for layer in layers)
    parts = f", keeps a part of {in_part}" if in_part else ""
    return (
        begin + f"The schedule ({found.answer.origin.solver if found.answer.origin else ''}, from "
        f"{found.source}) recomputes {recomputed} layers{parts} and offloads {offloaded}, "
        f"{RUN_BY[found.route.run]}; predicted: "
        f"{_text_of(found.predicted_peak_bytes, found.predicted_seconds)} a step; measured: "
        f"{_text_of(found.measured_peak_bytes, found.measured_seconds)}." + _notes(found)
    )


def _text_of(peak_bytes: int | None, seconds: float | None) -> str:
    return f"{bytes_text(peak_bytes)} and {seconds_text(seconds)}"


def _notes(found: Fitted) -> str:
    return "".join(f" Note: {note}." for note in found.notes)


def seconds_text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def bytes_text(value: int | None) -> str:
    return "-" if value is None else format_bytes(value)


_fitted: weakref.WeakKeyDictionary[nn.Module, Fitted] = weakref.WeakKeyDictionary()


def remember(model: nn.Module, fitted: Fitted) -> None:
    """Until it is unfitted, or gone."""
    _fitted[model] = fitted


def unfit(model: nn.Module) -> None:
    """Gives the model its own forwards back. Nothing happens where it was not fitted."""
    fitted = _fitted.pop(unwrapped(model), None)
    if fitted is not None:
        fitted.coordinator.remove()
        fitted.caches.put_back()


def unfit_parts(model: nn.Module) -> None:
    """Unfits every model that shares a module with this one: a layer has one schedule."""
    modules = set(model.modules())
    for other in list(_fitted):
        if not modules.isdisjoint(other.modules()):
            unfit(other)


def fitted(model: nn.Module) -> Fitted:
    """What `fit` did to the model. Raises `StowageError` where it was not fitted."""
    found = _fitted.get(unwrapped(model))
    if found is None:
        raise StowageError("this model was not fitted: call stowage.fit(model, sample, …) first")
    return found

"""What became of a model, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import nn

from stowage.answer import FirstSweep, StageFate
from stowage.job import Job
from stowage.model import Chain
from stowage.native import format_bytes
from stowage.torch.planning import job_of

if TYPE_CHECKING:
    from stowage.torch.fitting import Fitted


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What a schedule does with one layer."""

    name: str
    kept: str  # after the first forward: "all", "part", "output" or "nothing"
    recomputed: int  # forwards beyond the first, without reruns of what a part lacks
    offloaded: int  # times its value goes to host memory
    way: str = ""  # of a layer that is saved in part: the operators whose results it keeps


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What is predicted of inputs of another size than the sample's."""

    size: str  # of the first layer's first argument, as "4x512x256"
    predicted_seconds: float | None  # None: no schedule was found, and the least is run
    predicted_peak_bytes: int | None
    is_measured: bool  # else it lies between two that were

    @property
    def how(self) -> str:
        """In words."""
        if self.predicted_seconds is None:
            return "no schedule fits, so the least is run"
        return "measured" if self.is_measured else "between two that were measured"


@dataclass(frozen=True, slots=True)
class Report:
    """Predicted and measured figures of a step, and what becomes of each layer. Prints as a table.

    Seconds are those of forward and backward. Bytes are those of activations: without weights,
    gradients and the optimizer's state.
    """

    predicted_seconds: float | None
    measured_seconds: float | None
    predicted_peak_bytes: int | None
    measured_peak_bytes: int | None
    plain_seconds: float | None
    plain_peak_bytes: int | None
    budget_bytes: int
    managed_share: float  # of what a plain step holds for its backward: what the layers hold
    run: str  # "torch": layer by layer; "stowage": by Stowage's executor; "plain"
    run_reason: str
    layers: tuple[LayerReport, ...]
    notes: tuple[str, ...]
    sizes: tuple[SizeReport, ...] = ()  # those of which plans are kept, beside the sample's
    # The layers as measured, for `stowage.solve` and `stowage.export`; None: they are no chain.
    chain: Chain | None = field(default=None, repr=False)
    # Those with what else the job takes, for `Client.admit` and `stowage admit`.
    job: Job | None = field(default=None, repr=False)

    def __str__(self) -> str:
        lines = [f"{'':10}{'predicted':>14}{'measured':>14}{'plain':>14}"]
        seconds = (self.predicted_seconds, self.measured_seconds, self.plain_seconds)
        lines.append(f"{'step':10}" + "".join(f"{_seconds(value):>14}" for value in seconds))
        sizes = (self.predicted_peak_bytes, self.measured_peak_bytes, self.plain_peak_bytes)
        lines.append(f"{'peak':10}" + "".join(f"{_bytes(value):>14}" for value in sizes))
        lines.append(f"{'budget':10}{format_bytes(self.budget_bytes):>14}")
        lines.append(f"{'managed':10}{self.managed_share:>14.0%} of what a plain step holds")
        lines.append(f"{'run':10}{_RUN_BY[self.run]}: {self.run_reason}")
        width = max(len("layer"), *(len(layer.name) for layer in self.layers))
        lines.append(f"{'layer':{width}}  {'kept':8}  recomputed  offloaded")
        lines += [
            f"{layer.name:{width}}  {layer.kept:8}  {layer.recomputed:>10}  {layer.offloaded:>9}"
            + (f"  {layer.way}" if layer.way else "")
            for layer in self.layers
        ]
        width = max((len(each.size) for each in self.sizes), default=0)
        lines += [
            f"{each.size:{width}}  {_seconds(each.predicted_seconds):>10}"
            f"{_bytes(each.predicted_peak_bytes):>14}  {each.how}"
            for each in self.sizes
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def report(model: nn.Module) -> Report:
    """What `fit` predicted and measured. Raises `StowageError` where the model was not fitted."""
    from stowage.torch.fitting import fitted

    found = fitted(model)
    return Report(
        found.predicted_seconds,
        found.measured_seconds,
        found.predicted_peak_bytes,
        found.measured_peak_bytes,
        found.profile.plain_seconds,
        found.profile.plain_peak_bytes,
        found.activations,
        found.profile.managed_share,
        found.route.run,
        found.route.reason,
        tuple(_layers(found)),
        found.notes,
        tuple(_sizes(found)),
        _chain(found),
        _job(found),
    )


_RUN_BY = {
    "plain": "as without Stowage",
    "torch": "layer by layer",
    "stowage": "by Stowage's executor",
}
_KEPT = {
    FirstSweep.KEEPS_SAVED: "all",
    FirstSweep.KEEPS_OUTPUT: "output",
    FirstSweep.KEEPS_NOTHING: "nothing",
}


def _layers(found: Fitted) -> list[LayerReport]:
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


def _sizes(found: Fitted) -> Iterator[SizeReport]:
    outside = found.profile.outside_seconds
    sizes = found.coordinator.other_sizes
    for size, plan in sizes.plans() if sizes is not None else ():
        seconds = None if plan.seconds is None else plan.seconds + outside
        yield SizeReport(size, seconds, plan.peak_bytes, plan.is_measured)


def _chain(found: Fitted) -> Chain | None:
    """With the names of what the ways keep."""
    if not found.coordinator.is_chain:
        return None
    chain = found.profile.chain
    named = []
    for of_chain, stage in zip(chain.stages, found.coordinator.stages, strict=True):
        options = zip(of_chain.save_options, stage.ways, strict=True)
        with_names = tuple(replace(option, kept=way.names()) for option, way in options)
        named.append(replace(of_chain, save_options=with_names))
    return replace(chain, stages=tuple(named))


def _job(found: Fitted) -> Job | None:
    chain = _chain(found)
    return None if chain is None else job_of(chain, found.profile, found.use)


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


def paragraph(found: Fitted) -> str:
    """What `fit` did, in one paragraph."""
    profile = found.profile
    plain = (
        "plain training runs out of memory"
        if profile.plain_peak_bytes is None
        else f"plain training takes {format_bytes(profile.plain_peak_bytes)} and "
        f"{_seconds(profile.plain_seconds)} a step"
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
    layers = _layers(found)
    recomputed = sum(layer.recomputed > 0 for layer in layers)
    offloaded = sum(layer.offloaded > 0 for layer in layers)
    in_part = sum(layer.kept == "part" for layer in layers)
    parts = f", keeps a part of {in_part}" if in_part else ""
    return (
        begin + f"The schedule ({found.answer.origin.solver if found.answer.origin else ''}, from "
        f"{found.source}) recomputes {recomputed} layers{parts} and offloads {offloaded}, "
        f"{_RUN_BY[found.route.run]}; predicted: "
        f"{_bytes(found.predicted_peak_bytes)} and {_seconds(found.predicted_seconds)} a step; "
        f"measured: {_bytes(found.measured_peak_bytes)} and {_seconds(found.measured_seconds)}."
        + _notes(found)
    )


def _notes(found: Fitted) -> str:
    return "".join(f" Note: {note}." for note in found.notes)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def _bytes(value: int | None) -> str:
    return "-" if value is None else format_bytes(value)

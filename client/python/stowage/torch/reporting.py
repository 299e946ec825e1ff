"""What became of a model, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import nn

from stowage.job import Job
from stowage.model import Chain
from stowage.native import format_bytes
from stowage.torch.choosing.planning import job_of
from stowage.torch.fitted import (
    RUN_BY,
    Fitted,
    LayerReport,
    bytes_text,
    fitted,
    layers_of,
    seconds_text,
)


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
        lines.append(f"{'step':10}" + "".join(f"{seconds_text(value):>14}" for value in seconds))
        sizes = (self.predicted_peak_bytes, self.measured_peak_bytes, self.plain_peak_bytes)
        lines.append(f"{'peak':10}" + "".join(f"{bytes_text(value):>14}" for value in sizes))
        lines.append(f"{'budget':10}{format_bytes(self.budget_bytes):>14}")
        lines.append(f"{'managed':10}{self.managed_share:>14.0%} of what a plain step holds")
        lines.append(f"{'run':10}{RUN_BY[self.run]}: {self.run_reason}")
        width = max(len("layer"), *(len(layer.name) for layer in self.layers))
        lines.append(f"{'layer':{width}}  {'kept':8}  recomputed  offloaded")
        lines += [
            f"{layer.name:{width}}  {layer.kept:8}  {layer.recomputed:>10}  {layer.offloaded:>9}"
            + (f"  {layer.way}" if layer.way else "")
            for layer in self.layers
        ]
        width = max((len(each.size) for each in self.sizes), default=0)
        lines += [
            f"{each.size:{width}}  {seconds_text(each.predicted_seconds):>10}"
            f"{bytes_text(each.predicted_peak_bytes):>14}  {each.how}"
            for each in self.sizes
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def report(model: nn.Module) -> Report:
    """What `fit` predicted and measured. Raises `StowageError` where the model was not fitted."""
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
        tuple(layers_of(found)),
        found.notes,
        tuple(_sizes(found)),
        _chain(found),
        _job(found),
    )


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

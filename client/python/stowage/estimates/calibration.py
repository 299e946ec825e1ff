"""How far estimates were off, and the interval that follows for the next one.

What is kept of a run is the ratio between what its step took and what was estimated, of activations
and what is temporary: weights, gradients, the optimizer's state and the sample are known exactly.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import nn

from stowage.errors import StowageError
from stowage.estimates.live_bytes import ACTIVATIONS
from stowage.estimates.ranks import GATHERED
from stowage.estimates.step import StepPeak
from stowage.plan_file import write_durably

_VERSION = 1
_MOST = 1000.0  # a ratio above it is a mistake
_ENOUGH = 20  # ratios of one device and kind, which then need none of other devices
_MARGIN = 0.2
_SHIPPED = pathlib.Path(__file__).with_name("ratios.json")
_CPU = "CPU"
ANY_GPU = "GPU"


class CalibrationError(StowageError):
    """A file of ratios cannot be read or written. The message has the path and the field."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of one run.

    Attributes:
        device: The GPU's name, as of `gpus`; of a CPU, what its kernels use, as "CPU AVX512".
        kind: "autocast"; else of the weights, "fp32" or "half" where some are in half precision.
        ratio: Activations as measured, over those that were estimated.
    """

    device: str
    kind: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Between which ratios to estimates the next run is expected.

    Attributes:
        device: As of `Ratio`.
        kind: As of `Ratio`.
        low: The lowest ratio to expect.
        high: The highest.
        runs: On how many it stands.
        covers: Whether nine of ten runs lie inside, if they are like those; else there are too few
            to say so, and their extremes are widened by a fifth.
    """

    device: str
    kind: str
    low: float
    high: float
    runs: int
    covers: bool

    def __str__(self) -> str:
        if self.covers:
            return f"as 9 of 10 jobs, by {self.runs} runs"
        return f"by {self.runs} runs alone, widened by {_MARGIN:.0%}"


class Estimated(Protocol):
    """What is read of an `Estimate`."""

    @property
    def peaks(self) -> tuple[StepPeak, ...]: ...
    @property
    def spread(self) -> Spread: ...


class Calibration:
    """A file of ratios, which processes may share. Without one yet, `add` makes it.

    Its ratios say how far estimates are off on a device; nothing in it tells of a model.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)

    def ratios(self) -> list[Ratio]:
        """Those in the file; none where there is no file.

        Raises:
            CalibrationError: The file cannot be read, or is no such file.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise CalibrationError(f"cannot read {self.path}: {error}") from error
        try:
            return _ratios_of(json.loads(content))
        except (ValueError, RecursionError) as error:
            raise CalibrationError(f"{self.path} is no calibration: {error}") from error

    def add(self, estimate: Estimated, measured_peak_bytes: int) -> float:
        """Adds a run, and returns its ratio.

        Args:
            estimate: Of the run: for its GPU alone, or for the CPU.
            measured_peak_bytes: The highest memory of all its tensors, weights included, in a step
                that is not the first and runs without a plan, as of
                torch.cuda.max_memory_allocated.

        Raises:
            CalibrationError: The file cannot be read or written.
        """
        if type(measured_peak_bytes) is not int or measured_peak_bytes < 1:
            raise ValueError(
                f"measured_peak_bytes: is {measured_peak_bytes!r}; pass a whole number of bytes, "
                "as of torch.cuda.max_memory_allocated()"
            )
        known = max(split(peak)[0] for peak in estimate.peaks)
        if measured_peak_bytes < known // 2:
            raise ValueError(
                f"measured_peak_bytes: is {measured_peak_bytes}, where weights, gradients and the "
                f"optimizer's state take {known}: pass the peak of a whole step"
            )
        return self._add(estimate, ratio_of(estimate.peaks, measured_peak_bytes))

    def add_activations(self, estimate: Estimated, measured_bytes: int | None) -> float:
        """As `add`, of what `stowage.fit` measured of a plain step: the `plain_peak_bytes` of
        `stowage.report`, of forward and backward beside gradients that are there.

        Args:
            estimate: As of `add`, with accumulation=2, so that gradients are there as well.
            measured_bytes: Without weights, gradients, the optimizer's state and the sample.
        """
        if type(measured_bytes) is not int or measured_bytes < 1:
            raise ValueError(
                f"measured_bytes: is {measured_bytes!r}; pass plain_peak_bytes of stowage.report, "
                "which is None where no plain step was measured"
            )
        forward, backward = estimate.peaks[:2]
        if all(component.name != "gradients" for component in forward.components):
            raise ValueError("estimate: has no gradients in its forward: pass accumulation=2 to it")
        return self._add(estimate, measured_bytes / max(split(forward)[1], split(backward)[1]))

    def _add(self, estimate: Estimated, ratio: float) -> float:
        device = estimate.spread.device
        if device == ANY_GPU:
            raise ValueError("estimate: names no GPU: pass the one of the run as estimate(gpu=...)")
        if ratio > _MOST:
            raise ValueError(
                f"estimate: is off by a factor of {ratio:.0f}: pass the estimate of this very run"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path):
                entries = [*self.ratios(), Ratio(device, estimate.spread.kind, round(ratio, 4))]
                write_durably(self.path, _content_of(entries).encode())
        except (OSError, ValueError) as error:
            raise CalibrationError(f"cannot write {self.path}: {error}") from error
        return ratio


@contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """One process at a time; by a file beside it, since the file itself is replaced."""
    with open(path.with_name(f"{path.name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _content_of(ratios: Sequence[Ratio]) -> str:
    lines = ",\n".join(json.dumps(asdict(ratio)) for ratio in ratios)
    return f'{{"version": {_VERSION}, "ratios": [\n{lines}\n]}}\n'


def _ratios_of(content: Any) -> list[Ratio]:
    if not isinstance(content, dict):
        raise ValueError('it must be an object, {"version": …, "ratios": […]}')
    version, ratios = content.get("version"), content.get("ratios")
    if version != _VERSION:
        raise ValueError(
            f"version: is {version!r:.99}; this release reads {_VERSION}: take another file"
        )
    if not isinstance(ratios, list):
        raise ValueError(f"ratios: is {ratios!r:.99}; it must be a list")
    return [_ratio_of(entry, f"ratios[{number}]") for number, entry in enumerate(ratios)]


def _ratio_of(entry: Any, where: str) -> Ratio:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: is {entry!r:.99}; it must be an object")
    fields: dict[str, Any] = {name: entry.get(name) for name in ("device", "kind", "ratio")}
    for name in ("device", "kind"):
        if not isinstance(fields[name], str) or not fields[name]:
            raise ValueError(f"{where}.{name}: is {fields[name]!r:.99}; it must be a text")
    ratio = fields["ratio"]
    if type(ratio) not in (int, float) or not 0 <= ratio <= _MOST:
        raise ValueError(
            f"{where}.ratio: is {ratio!r:.99}; it must be a number from 0 to {_MOST:.0f}"
        )
    return Ratio(**fields)


# --- Ratios of a run --------------------------------------------------------------------------


def split(peak: StepPeak) -> tuple[int, int]:
    """Bytes that are known exactly, and those that are not: activations, and what is gathered."""
    activations = sum(c.bytes for c in peak.components if c.name in (ACTIVATIONS, GATHERED))
    return peak.bytes - activations, activations


def ratio_of(peaks: Sequence[StepPeak], measured_bytes: int) -> float:
    """The ratio r with which the highest of `known + r activations` is what was measured; 0 where
    what is known is more than that.
    """
    parts = [split(peak) for peak in peaks]
    ratios = [(measured_bytes - known) / made for known, made in parts if made]
    if not ratios:
        raise ValueError("estimate: has no activations: estimate a step that makes some")
    return max(0.0, min(ratios))


def interval_of(peaks: Sequence[StepPeak], spread: Spread) -> tuple[int, int]:
    """The lowest and the highest peak, in bytes."""
    parts = [split(peak) for peak in peaks]
    low, high = (
        [known + ratio * made for known, made in parts] for ratio in (spread.low, spread.high)
    )
    return math.floor(max(low)), math.ceil(max(high))


def kind_of(model: nn.Module, autocast: torch.dtype | None) -> str:
    """Of arithmetic: see `Ratio`."""
    if autocast is not None:
        return "autocast"
    types = {parameter.dtype for parameter in model.parameters()}
    return "half" if types & {torch.float16, torch.bfloat16} else "fp32"


def cpu_name() -> str:
    return f"{_CPU} {torch.backends.cpu.get_cpu_capability()}"


# --- The interval -----------------------------------------------------------------------------


def known_ratios(calibration: Calibration | str | os.PathLike[str] | None) -> list[Ratio]:
    """Those of a calibration."""
    if calibration is None:
        return []
    if not isinstance(calibration, Calibration):
        calibration = Calibration(calibration)
    return calibration.ratios()


def spread_of(own: Sequence[Ratio], device: str, kind: str) -> Spread:
    """Of a calibration's ratios of this device and kind; where they are few, with those that come
    with the package.
    """
    ratios = [each.ratio for each in own if (each.device, each.kind) == (device, kind)]
    if len(ratios) < _ENOUGH:
        ratios += _shipped(device, kind)
    low, high, covers = ends(ratios)
    return Spread(device, kind, low, high, len(ratios), covers)


def _shipped(device: str, kind: str) -> list[float]:
    """Of CPUs or of GPUs; of all kinds where there are few of this one."""
    is_cpu = device.startswith(_CPU)
    all_kinds = [r for r in Calibration(_SHIPPED).ratios() if r.device.startswith(_CPU) == is_cpu]
    same = [each.ratio for each in all_kinds if each.kind == kind]
    return same if len(same) >= _ENOUGH else [each.ratio for each in all_kinds]


def ends(ratios: Sequence[float]) -> tuple[float, float, bool]:
    """The k-th lowest and the k-th highest of n, and whether they cover.

    Of n + 1 ratios in any order the last one is as likely the first as any other by size: it lies
    outside with a chance of 2 k / (n + 1) at most, and k is the most for which that is 0.1. With
    n < 19 there is none: then the extremes, widened. Source: split conformal prediction, Lei et
    al., "Distribution-free predictive inference for regression", 2018.
    """
    ordered = sorted(ratios)
    k = (len(ordered) + 1) // 20
    if k == 0:
        return ordered[0] * (1 - _MARGIN), ordered[-1] * (1 + _MARGIN), False
    return ordered[k - 1], ordered[-k], True

"""How many samples fit into a step on a GPU, and with how many of them training is the fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from stowage.errors import InfeasibleError
from stowage.estimates.estimate import Estimate, estimate
from stowage.estimates.hardware.gpus import Gpu, gpu_of
from stowage.estimates.verdicts import DOES_NOT_FIT, Verdict
from stowage.native import format_seconds


@dataclass(frozen=True, slots=True)
class Batch:
    """A step of so many samples."""

    size: int
    estimate: Estimate

    @property
    def verdict(self) -> Verdict:
        return self.estimate.verdicts[0]

    @property
    def fits(self) -> bool:
        return self.verdict.outcome != DOES_NOT_FIT

    @property
    def samples_per_second(self) -> float:
        """0 where it does not fit."""
        seconds = self.verdict.seconds if self.fits else None
        return self.size / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class Batches:
    """What was tried, the smallest first. Prints as a table."""

    tried: tuple[Batch, ...]

    @property
    def largest(self) -> Batch:
        """That fits, with a plan or without."""
        return max((batch for batch in self.tried if batch.fits), key=lambda batch: batch.size)

    @property
    def fastest(self) -> Batch:
        """Of those that were tried, the one with the most samples a second."""
        return max(self.tried, key=lambda batch: batch.samples_per_second)

    def __str__(self) -> str:
        gpu = self.tried[0].verdict.gpu
        lines = [f"{'batch':>8}{'a step':>12}{'samples/s':>12}  on {gpu.name}"]
        for batch in self.tried:
            verdict, rate = batch.verdict, batch.samples_per_second
            seconds = format_seconds(verdict.seconds) if rate and verdict.seconds else "-"
            slower = f", {verdict.slowdown:+.1%}" if verdict.answer is not None else ""
            mark = " (fastest)" if batch is self.fastest else ""
            mark += " (largest)" if batch is self.largest else ""
            lines.append(
                f"{batch.size:8}{seconds:>12}{rate:12.2f}  {verdict.outcome}{slower}{mark}"
            )
        return "\n".join(lines)


def largest_batch(
    model: nn.Module | Callable[[], nn.Module],
    sample: Callable[[int], Any],
    gpu: str | Gpu,
    *,
    least: int = 1,
    most: int = 1 << 16,
    **options: Any,
) -> Batches:
    """The largest batch with which a step fits a GPU, by doubling and bisection on estimates.

    Args:
        model: As of `estimate`.
        sample: What makes a sample of a batch of this size. It may as well make one of a length:
            then the longest is found.
        gpu: The card, or its name.
        least: The smallest that the model takes, as 2 where it normalizes a batch.
        most: Larger ones are not tried.
        options: Further arguments of `estimate`.

    Raises:
        InfeasibleError: Not even the smallest fits; says why. Or as `estimate` does.
    """
    for name, size in (("least", least), ("most", most)):
        if type(size) is not int or size < 1:
            raise ValueError(f"{name}: is {size!r}; it must be a whole number from 1 on")
    if least > most:
        raise ValueError(f"least: is {least}, more than most, which is {most}")
    card = gpu_of(gpu)
    found: dict[int, Batch] = {}

    def fits(size: int) -> bool:
        found[size] = Batch(size, estimate(model, sample(size), gpu=card, **options))
        return found[size].fits

    if not fits(least):
        verdict = found[least].verdict
        raise InfeasibleError(f"no batch fits: with {least}, {verdict}", verdict.least_bytes)
    low, high = least, 2 * least
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return Batches(tuple(found[size] for size in sorted(found)))

"""Tries a schedule that stands in the place of a model's forwards: compares and measures steps."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

from stowage.errors import InfeasibleError, StowageError
from stowage.native import format_bytes
from stowage.torch.choosing.planning import infeasible
from stowage.torch.distributed.ranks import Ranks
from stowage.torch.fitted import Fitted
from stowage.torch.measuring.comparison import (
    PlainSteps,
    compare_steps,
    first_difference,
    plain_step,
    plain_steps,
    sums_of,
    why_not_compared,
)
from stowage.torch.measuring.model_state import same_state, unchanged
from stowage.torch.measuring.workload import Workload, metered_step, seconds_of_step
from stowage.torch.profiling.profile_file import ProfileFile
from stowage.torch.profiling.profiler import Profile

# By more than what is predicted of a profile that was just measured.
_PEAKS_DIFFER = 0.05


class OutdatedError(StowageError):
    """A saved profile is not of what the model does now."""


@dataclass(slots=True)
class Measured:
    """A model's profile, and where it is saved; None: nowhere."""

    profile: Profile
    file: ProfileFile | None
    is_saved: bool  # it comes from there
    plain: PlainSteps | None  # None: out of memory, or not measured in this start


def try_schedule(
    model: nn.Module,
    work: Workload,
    fitted: Fitted,
    measured: Measured,
    ranks: Ranks,
    too_much: InfeasibleError | None,
    *,
    measure: bool,
) -> None:
    """Puts the schedule in place, compares a step with plain training's, and measures steps.

    Raises `too_much` where the schedule is predicted not to fit, and does not.
    """
    profile = fitted.profile
    if fitted.answer is None:
        fitted.coordinator.install()
        if measure and measured.is_saved:
            with unchanged(model, work):
                step = ranks.steps(lambda: metered_step(work))
            _refuse_outdated(measured, fitted, max(ranks.all_of(step.peak)))
        if measure:
            fitted.measured_seconds = profile.plain_seconds
            fitted.measured_peak_bytes = profile.plain_peak_bytes
        return
    plain = measured.plain
    if measured.is_saved:
        plain = ranks.steps(lambda: _plain_step(model, work, profile))
    why_not = max(ranks.all_of(why_not_compared(plain)))
    if why_not:
        plain, fitted.notes = None, (*fitted.notes, why_not)
    fitted.coordinator.install()
    if plain is None and not measure and too_much is None:
        return
    with unchanged(model, work):
        with same_state(model, work):
            step = ranks.steps(lambda: metered_step(work))
        highest = max(ranks.all_of(step.peak))
        if too_much is not None and highest > fitted.activations:
            if measured.is_saved:
                raise OutdatedError("no schedule fits with the saved profile") from too_much
            least = min(highest, (too_much.minimum_memory_bytes or highest) - fitted.use.total)
            raise infeasible(fitted.activations, least, fitted.use)
        _refuse_outdated(measured, fitted, highest)
        if plain is not None:
            why_not = _compared(model, work, fitted, plain, step.loss, ranks)
            fitted.notes = (*fitted.notes, *([why_not] if why_not else []))
        if measure:
            if work.device.type == "cuda":  # where the first step has made workspaces
                step = ranks.steps(lambda: metered_step(work))
            is_enough = work.is_enough(step.seconds)
            fitted.measured_seconds = (
                step.seconds if is_enough else ranks.steps(lambda: seconds_of_step(work))
            )
            fitted.measured_peak_bytes = step.peak
            excess = step.peak - fitted.activations
            if excess > _PEAKS_DIFFER * fitted.activations:
                fitted.notes = (*fitted.notes, _too_much(step.peak, fitted.activations - excess))


def _too_much(peak: int, smaller: int) -> str:
    says = f"a step was measured to take {format_bytes(peak)} of activations, more than its budget"
    return f"{says}: pass activations={smaller}" if smaller > 0 else says


def _compared(
    model: nn.Module,
    work: Workload,
    fitted: Fitted,
    plain: PlainSteps,
    loss: float,
    ranks: Ranks,
) -> str:
    """Compares the step that has just run. Why that cannot be; "": it has been."""
    scheduled = sums_of(model, loss)
    if plain.rounding is None and ranks.any_of(
        first_difference(plain.sums, scheduled, {}) is not None
    ):
        # Of plain steps: what is wrong under a schedule may be so in another way each time.
        fitted.coordinator.remove()
        model.zero_grad(set_to_none=False)
        plain = ranks.steps(lambda: plain_steps(model, work))
        fitted.coordinator.install()
        why_not = max(ranks.all_of(why_not_compared(plain)))
        if why_not:
            return why_not
    sums, rounding = plain.sums, plain.rounding or {}
    ranks.together(lambda: compare_steps(sums, scheduled, rounding))
    return ""


def _plain_step(model: nn.Module, work: Workload, profile: Profile) -> PlainSteps | None:
    """None: plain training runs out of memory."""
    seconds, peak = profile.plain_seconds, profile.plain_peak_bytes
    if seconds is not None and peak is not None:
        with unchanged(model, work), contextlib.suppress(torch.OutOfMemoryError):
            return plain_step(model, work, seconds, peak)
    return None


def _refuse_outdated(measured: Measured, fitted: Fitted, peak: int) -> None:
    predicted = fitted.predicted_peak_bytes or 0
    if measured.is_saved and peak > (1 + _PEAKS_DIFFER) * max(predicted, fitted.activations):
        assert measured.file is not None
        measured.file.forget()
        raise OutdatedError(f"{measured.file.path}: a step takes {format_bytes(peak)}")

"""A training job on one device, and the verdicts whether it fits."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from stowage.answer import Answer
from stowage.model import Chain, Platform, SolveOptions
from stowage.serialization.codec import Int32
from stowage.serialization.message import Message


class Phase(enum.Enum):
    """When memory beside the layers' is there."""

    STEP = 0
    """All the time: weights, gradients, the optimizer's state."""
    LAYERS = 1
    """In forward and backward alone: buckets, gathered weights."""
    UPDATE = 2
    """In the optimizer's step alone: what it makes for the time."""
    AROUND = 3
    """In what the model does before and after its layers, without these."""


class Fit(enum.Enum):
    """Whether a job fits a device."""

    FITS = 1
    """With all layers kept."""
    FITS_WITH_PLAN = 2
    """With the plan's schedule."""
    DOES_NOT_FIT = 3
    """The solver has no schedule with which it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Message):
    """Memory of a job beside its chain's.

    Attributes:
        name: Free text, as in "weights".
        bytes: On one device, or on all `shards` together.
        phase: When it is there.
        shards: Devices over which the bytes are divided, as the optimizer's state in ZeRO 1; each
            has an equal share, rounded up. 0: they are those of this device.
    """

    root: ClassVar[str] = "component"

    name: str = ""
    bytes: int = 0
    phase: Phase = Phase.STEP
    shards: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Message):
    """A job on one device: its layers, and what else takes memory there.

    Attributes:
        chain: What a step's layers take.
        components: The rest, at most 100.
        plain_peak_bytes: What a step with all layers kept takes beside the components of phase
            STEP, as measured; None: what the chain says, which may be more.
        in_flight: Micro-batches whose values a pipeline's stage holds at once: rank r of p, from 0,
            up to p - r; 0 means 1.
    """

    root: ClassVar[str] = "job"

    chain: Chain | None = None
    components: tuple[Component, ...] = ()
    plain_peak_bytes: int | None = None
    in_flight: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Message):
    """A device that a job may be given.

    Attributes:
        platform: memory_bytes is all that the job may take there.
        price: Of an hour, in any currency; 0: unknown.
    """

    root: ClassVar[str] = "device"

    platform: Platform | None = None
    price: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Message):
    """Whether a job fits one of the devices.

    Attributes:
        device: Its number in the request, from 0.
        fit: Whether it fits.
        peak_bytes: The job's highest memory there: with the plan where there is one, else with all
            layers kept.
        peak_outside_layers: Whether that is outside of the layers, as in the optimizer's step.
        minimum_memory_bytes: The least memory that is enough; None where it fits, or where it is
            not known.
        plan: With FITS_WITH_PLAN, the answer for the memory that the rest of the job leaves.
    """

    device: Int32 = 0
    fit: Fit = Fit.DOES_NOT_FIT
    peak_bytes: int = 0
    peak_outside_layers: bool = False
    minimum_memory_bytes: int | None = None
    plan: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitRequest(Message):
    """Whether a job fits each of some devices; see `Client.admit`."""

    root: ClassVar[str] = "request"

    job: Job | None = None
    devices: tuple[Device, ...] = ()
    solver: str = ""
    options: SolveOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitResponse(Message):
    """The verdicts."""

    verdicts: tuple[Verdict, ...] = ()

"""How good an answer is, what its schedule costs, and why.

Units: bytes and seconds; a field ending in `overhead` or `gap` is a fraction (0.1 is 10 %). The
classes mirror the API's messages field for field (`scheduler.proto`); None means unset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stowage.model import Mode
from stowage.serialization.codec import Int32
from stowage.serialization.message import Message


class Outcome(enum.Enum):
    """How good an answer is."""

    OPTIMAL = 1
    """No schedule of the solver's class is faster, or no schedule at all."""
    FEASIBLE = 2
    """A schedule that fits; `limit` says why a faster one may exist."""
    INFEASIBLE = 3
    """The solver has no schedule within the memory; `minimum_memory_bytes` is what it needs."""


class Limit(enum.Enum):
    """Why a FEASIBLE answer is not OPTIMAL."""

    LIMIT_NONE = 0
    HEURISTIC = 1
    """The solver gives no guarantee."""
    ROUNDING = 2
    """Sizes, times or memory slots were rounded."""
    TIME = 3
    """Time ran out: the best schedule so far."""
    CLASS = 4
    """The best of a class of schedules, which the notes name."""


class HoldingKind(enum.Enum):
    """What takes device memory."""

    OUTPUT = 1
    SAVED = 2
    GRADIENT = 3
    OVERHEAD = 4


class FirstSweep(enum.Enum):
    """What the first forward sweep leaves of a stage."""

    KEEPS_SAVED = 1
    """All that its backward needs."""
    KEEPS_OUTPUT = 2
    """Its output: a checkpoint."""
    KEEPS_NOTHING = 3
    """Nothing: it is recomputed from an earlier checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(Message):
    """What a schedule costs, according to the simulator.

    Attributes:
        makespan_seconds: Of one step: until the last operation ends.
        compute_seconds: All forwards and backwards, recomputation included.
        recompute_seconds: The part of it beyond one forward of each stage and one backward in the
            stage's own way.
        idle_seconds: Makespan minus compute: waiting for transfers.
        peak_memory_bytes: On the device.
        peak_host_bytes: Of offloaded values.
        overhead: Makespan over one forward and backward of each stage, minus 1.
        lower_bound_seconds: No schedule is faster.
        gap: Makespan over the lower bound, minus 1.
    """

    makespan_seconds: float = 0.0
    compute_seconds: float = 0.0
    recompute_seconds: float = 0.0
    idle_seconds: float = 0.0
    peak_memory_bytes: int = 0
    peak_host_bytes: int = 0
    overhead: float = 0.0
    lower_bound_seconds: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding(Message):
    """One thing that takes device memory.

    Attributes:
        kind: What it is.
        stage: Its stage; 0 is the chain's input.
        bytes: Of device memory.
    """

    kind: HoldingKind
    stage: Int32 = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak(Message):
    """An operation with the highest memory.

    Attributes:
        operation: Index in the schedule, from 0.
        memory_bytes: On the device while it runs.
        holdings: What takes it, largest first.
        other_bytes: Taken by what is not listed.
    """

    operation: int = 0
    memory_bytes: int = 0
    holdings: tuple[Holding, ...] = ()
    other_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle(Message):
    """One gap of the compute queue.

    Attributes:
        operation: Index of the one that had to wait; past the end: the final transfers.
        seconds: How long it waited.
        waits_for: Index of the transfer or RELEASE that it waited for.
    """

    operation: int = 0
    seconds: float = 0.0
    waits_for: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFate(Message):
    """What a schedule does with one stage's value.

    Attributes:
        stage: From 1.
        first_sweep: What the first forward sweep leaves of it.
        recomputed: Number of forwards beyond the first.
        offloaded: Number of times that its value is copied to the host.
        mode: None: EAGER.
        fused_into: In graph mode the last stage of its fusion group; None where that is itself.
        save_option: The way of its `save_options`, from 1, in which its backward was; None: its
            own.
    """

    stage: Int32 = 0
    first_sweep: FirstSweep
    recomputed: Int32 = 0
    offloaded: Int32 = 0
    mode: Mode | None = None
    fused_into: Int32 | None = None
    save_option: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Message):
    """Why a schedule costs what it costs.

    Attributes:
        peaks: The operations with the highest memory, highest first.
        idles: Where the compute queue waits, longest first.
        stages: What becomes of each stage's value, by stage.
        notes: One sentence each: a solver left out, an option without effect.
    """

    peaks: tuple[Peak, ...] = ()
    idles: tuple[Idle, ...] = ()
    stages: tuple[StageFate, ...] = ()
    notes: tuple[str, ...] = ()

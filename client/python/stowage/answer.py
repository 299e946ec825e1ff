"""What the solvers answer: schedules with what they cost and why, frontiers, simulations.

Units: bytes and seconds; a field ending in `overhead` or `gap` is a fraction (0.1 is 10 %). The
classes mirror the API's messages field for field (`scheduler.proto`); None means unset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from stowage.model import Chain, Mode, Operation, Platform, Schedule
from stowage.serialization.codec import NOT_WIRE, OMIT_EMPTY, Int32, Message

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


class Source(enum.Enum):
    """Where an answer comes from."""

    SOLVED = 1
    MEMORY_CACHE = 2
    DISK_CACHE = 3
    COALESCED = 4
    """From the solve of an equal request that was in flight."""
    SHARED_CACHE = 5
    """From the cache that several servers share."""


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
class Origin(Message):
    """How an answer was obtained.

    Attributes:
        solver: Whose schedule it is; the requested solver when INFEASIBLE.
        queue_seconds: Time in the queue.
        solve_seconds: Time to solve and simulate.
        source: Solve, or cache.
        fingerprint: Equal for requests that round to the same instance; empty without a server.
    """

    solver: str = ""
    queue_seconds: float = 0.0
    solve_seconds: float = 0.0
    source: Source = Source.SOLVED
    fingerprint: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundingLoss(Message):
    """What the solver found on a finer grid; the answer's schedule is not from there.

    Attributes:
        finer_slots: 0: the answer is OPTIMAL, nothing finer was solved.
        finer_makespan_seconds: With that many memory slots.
        loss: The answer's makespan over it, minus 1.
    """

    finer_slots: int = 0
    finer_makespan_seconds: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainWarning(Message):
    """A figure of a chain that measurements of a network do not show.

    Attributes:
        field: Its path, indices from 0: "chain.stages[17].backward_seconds".
        reason: BACKWARD_SHORT, BACKWARD_LONG, TIMES_DIFFER, TIMES_ZERO, STEP_LONG, STEP_SHORT,
            SIZES_SMALL or SAVED_EQUALS_OUTPUT; later servers may have others.
        problem: What is unlikely, and the remedy.
    """

    field: str = ""
    reason: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSchedule(Message):
    """One of the schedules that an export compares.

    Attributes:
        name: As in the export's comment.
        schedule: Of the chain's stages.
        prediction: Simulated on the chain.
        fits: It keeps the limits of the platform.
    """

    name: str = ""
    schedule: Schedule
    prediction: Prediction
    fits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPlan(Message):
    """The best plan that a framework can express, beside an answer; see `Client.export`.

    Attributes:
        text: The settings or code, to paste; empty where no plan fits.
        comparison: A line each: the answer's schedule, this plan, the framework's default.
        plan: None where none fits.
        usual: The default; None where it would run a stage twice that may run only once.
        forbidden_stage: That stage.
        minimum_memory_bytes: The least with which there is a plan.
        time_ran_out: A plan may exist, or a faster one.
    """

    text: str = ""
    comparison: tuple[str, ...] = ()
    plan: ComparedSchedule | None = None
    usual: ComparedSchedule | None = None
    forbidden_stage: Int32 | None = None
    minimum_memory_bytes: int | None = None
    time_ran_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Message):
    """The answer to a solve (SolveResponse). An infeasible one has no schedule.

    Attributes:
        outcome: How good the schedule is.
        limit: Why a faster one may exist.
        schedule: None when INFEASIBLE, as prediction and explanation.
        prediction: What the schedule costs.
        platform: That of the request; its memory_bytes is the budget.
        minimum_memory_bytes: The least memory with which this solver has a schedule.
        memory_floor_bytes: No schedule of any solver exists below this memory.
        memory_floor_operation: The operation that needs it by itself.
        origin: Where the answer came from.
        explanation: Why it costs what it costs.
        rounding_loss: Set when it was asked for and the solver uses memory slots.
        warnings: What is unlikely about the chain: perhaps not what was meant to be measured.
        exported: What `Client.export` asks for; None in other answers.
        chain: What was solved; no part of the message, so None in an answer from JSON.
    """

    root: ClassVar[str] = "answer"

    outcome: Outcome
    limit: Limit = Limit.LIMIT_NONE
    schedule: Schedule | None = None
    prediction: Prediction | None = None
    platform: Platform | None = None
    minimum_memory_bytes: int | None = None
    memory_floor_bytes: int = 0
    memory_floor_operation: Operation | None = None
    origin: Origin | None = None
    explanation: Explanation | None = None
    rounding_loss: RoundingLoss | None = None
    warnings: tuple[ChainWarning, ...] = field(default=(), metadata=OMIT_EMPTY)
    exported: ExportedPlan | None = None
    chain: Chain | None = field(default=None, compare=False, repr=False, metadata=NOT_WIRE)

    @property
    def feasible(self) -> bool:
        """Whether there is a schedule."""
        return self.outcome is not Outcome.INFEASIBLE

    def plot(self, chain: Chain | None = None, *, figure: Figure | None = None) -> Figure:
        """Draws one step of the schedule: a lane a queue, and the memory below.

        Args:
            chain: What was solved; None: `self.chain`.
            figure: Where to draw; None: a new one.
        Raises:
            InfeasibleError: There is no schedule.
            InvalidRequestError: There is no chain, or the schedule is not for it.
            MissingExtraError: matplotlib is not installed (the extra `plot`).
        """
        from stowage.views import plot

        return plot.answer(self, chain, figure)

    def trace(self, chain: Chain | None = None) -> str:
        """The predicted step as a Chrome trace, JSON for chrome://tracing or ui.perfetto.dev.

        Args:
            chain: What was solved; None: `self.chain`.
        Raises:
            InfeasibleError: There is no schedule.
            InvalidRequestError: There is no chain, or the schedule is not for it.
        """
        from stowage.views import trace

        return trace.answer(self, chain)

    def _repr_html_(self) -> str:
        from stowage.views import html

        return html.answer(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint(Message):
    """The makespan for one budget, without the schedule, which `solve` returns.

    Attributes:
        memory_bytes: The budget.
        outcome: As in Answer.
        limit: As in Answer.
        solver: Whose schedule it is; empty when INFEASIBLE.
        prediction: None when INFEASIBLE.
    """

    memory_bytes: int = 0
    outcome: Outcome
    limit: Limit = Limit.LIMIT_NONE
    solver: str = ""
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier(Message):
    """Makespans for many memory budgets (FrontierResponse).

    Attributes:
        points: By ascending budget. Makespans never ascend.
        knee: Index of the point beyond which more memory gains little; None where there is none.
        minimum_memory_bytes: As in Answer.
        memory_floor_bytes: As in Answer.
        most_memory_bytes: What storing everything takes.
        solves: Number of solves that the points came from.
        origin: Its solver is the requested one.
        notes: As in Explanation.
    """

    root: ClassVar[str] = "frontier"

    points: tuple[FrontierPoint, ...] = ()
    knee: Int32 | None = None
    minimum_memory_bytes: int | None = None
    memory_floor_bytes: int = 0
    most_memory_bytes: int = 0
    solves: Int32 = 0
    origin: Origin | None = None
    notes: tuple[str, ...] = ()

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draws the step's time over the budget, with the knee.

        Args:
            axes: Where to draw; None: those of a new figure.
        Raises:
            MissingExtraError: matplotlib is not installed (the extra `plot`).
        """
        from stowage.views import plot

        return plot.frontier(self, axes)

    def _repr_html_(self) -> str:
        from stowage.views import html

        return html.frontier(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverDescription(Message):
    """One solver.

    Attributes:
        name: For `solve(..., solver=name)`.
        summary: What it does, in one sentence.
        guarantee: The class of schedules of which its answers are the fastest.
        complexity: Time and memory; L stages, S memory slots.
        version: Raised when equal requests get other answers than before.
        recomputes: Its schedules may run a forward again.
        offloads: Its schedules may copy values to the host.
        options: Fields of SolveOptions that it reads.
        mixes_modes: Runs stages with graph costs in either mode.
    """

    root: ClassVar[str] = "solver"

    name: str = ""
    summary: str = ""
    guarantee: str = ""
    complexity: str = ""
    version: Int32 = 0
    recomputes: bool = False
    offloads: bool = False
    options: tuple[str, ...] = ()
    mixes_modes: bool = False

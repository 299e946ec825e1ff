"""What the solvers answer: schedules with where they come from, and frontiers.

Units: bytes and seconds. The classes mirror the API's messages field for field (`scheduler.proto`);
None means unset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from stowage.model import Chain, Operation, Platform, Schedule
from stowage.outcome import Explanation, Limit, Outcome, Prediction
from stowage.serialization.codec import NOT_WIRE, OMIT_EMPTY, Int32
from stowage.serialization.message import Message
from stowage.views import html, trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Source(enum.Enum):
    """Where an answer comes from."""

    SOLVED = 1
    MEMORY_CACHE = 2
    DISK_CACHE = 3
    COALESCED = 4
    """From the solve of an equal request that was in flight."""
    SHARED_CACHE = 5
    """From the cache that several servers share."""


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
        from stowage.views import plot  # which imports matplotlib

        return plot.answer(self, chain, figure)

    def trace(self, chain: Chain | None = None) -> str:
        """The predicted step as a Chrome trace, JSON for chrome://tracing or ui.perfetto.dev.

        Args:
            chain: What was solved; None: `self.chain`.
        Raises:
            InfeasibleError: There is no schedule.
            InvalidRequestError: There is no chain, or the schedule is not for it.
        """
        return trace.answer(self, chain)

    def _repr_html_(self) -> str:
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
        from stowage.views import plot  # which imports matplotlib

        return plot.frontier(self, axes)

    def _repr_html_(self) -> str:
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

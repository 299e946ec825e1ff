"""The requests of the API as messages: what `Client` sends and what plan files hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stowage.answer import Answer
from stowage.model import Chain, Platform, Schedule, SolveOptions
from stowage.serialization.codec import Int32
from stowage.serialization.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest(Message):
    """One solve.

    Attributes:
        chain: What is trained.
        platform: The device, and the memory budget.
        solver: A name; empty: "auto".
        options: None: the defaults.
        export_for: A framework, for `Answer.exported`; None: the schedule alone.
        export_layers: The stages that are its layers, as in "2:25"; None: all.
    """

    root: ClassVar[str] = "request"

    chain: Chain | None = None
    platform: Platform | None = None
    solver: str = ""
    options: SolveOptions | None = None
    export_for: str | None = None
    export_layers: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRequest(Message):
    """A solve for each of many budgets; see `stowage.frontier`."""

    root: ClassVar[str] = "request"

    chain: Chain | None = None
    platform: Platform | None = None
    solver: str = ""
    options: SolveOptions | None = None
    points: Int32 = 0
    memory_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest(Message):
    """A schedule to replay; see `stowage.simulate`."""

    root: ClassVar[str] = "request"

    chain: Chain | None = None
    platform: Platform | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionReport(Message):
    """What a job measured when it executed a schedule, beside the prediction; of one step.

    Attributes:
        fingerprint: Of the answer's origin, if it has one.
        predicted_step_seconds: Prediction.makespan_seconds.
        measured_step_seconds: Median of the measured steps.
        predicted_peak_bytes: Prediction.peak_memory_bytes.
        measured_peak_bytes: Median of the measured steps.
        agent: Program and version.
        job: A name by which operators recognize the job.
    """

    root: ClassVar[str] = "report"

    fingerprint: str = ""
    predicted_step_seconds: float = 0.0
    measured_step_seconds: float = 0.0
    predicted_peak_bytes: int = 0
    measured_peak_bytes: int = 0
    agent: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan(Message):
    """An answer that a job trained with (plan.proto).

    Attributes:
        request: What was solved.
        response: Its answer.
        solved_locally: No server answered.
        solver_version: Of the solver whose schedule it is.
    """

    root: ClassVar[str] = "plan"

    request: SolveRequest
    response: Answer
    solved_locally: bool = False
    solver_version: Int32 = 0

"""Fits a training job into GPU memory with the least time lost.

`fit` does it for a PyTorch model. `solve`, `simulate` and `frontier` answer in this process,
`Client` asks servers, `plan` asks whatever answers first. Sizes are bytes and times seconds.
Importing this package imports neither PyTorch nor gRPC nor matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from stowage.answer import (
    Answer,
    ChainWarning,
    ComparedSchedule,
    ExportedPlan,
    Frontier,
    FrontierPoint,
    Origin,
    RoundingLoss,
    SolverDescription,
    Source,
)
from stowage.errors import (
    AbortedError,
    BudgetError,
    BusyError,
    CancelledError,
    DataLossError,
    DeadlineError,
    FailedPreconditionError,
    FieldViolation,
    InfeasibleError,
    InternalError,
    InvalidRequestError,
    MissingExtraError,
    NotAChainError,
    PermissionDeniedError,
    SolveMemoryError,
    StowageError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from stowage.exports import Export, ExportTarget, export, export_targets
from stowage.job import Component, Device, Fit, Job, Phase, Verdict
from stowage.local import frontier, memory_range, solve, solvers
from stowage.model import (
    Chain,
    GraphCosts,
    Mode,
    Operation,
    OperationKind,
    Platform,
    SaveOption,
    Schedule,
    SolveOptions,
    Stage,
)
from stowage.outcome import (
    Explanation,
    FirstSweep,
    Holding,
    HoldingKind,
    Idle,
    Limit,
    Outcome,
    Peak,
    Prediction,
    StageFate,
)
from stowage.simulation import Simulation, TimelineEntry, simulate
from stowage.version import __version__ as __version__

if TYPE_CHECKING:
    from stowage.planner import Planned, PlanSource, plan
    from stowage.remote.client import Client
    from stowage.remote.events import Improved, Queued, Repeated, Running
    from stowage.torch import fit, report, unfit

# What is imported on first use, by module: these need an extra or PyTorch.
_LAZY = {
    "stowage.estimates": ("Calibration", "Estimate", "estimate", "gpus", "largest_batch"),
    "stowage.planner": ("PlanSource", "Planned", "plan"),
    "stowage.remote.client": ("Client",),
    "stowage.remote.events": ("Improved", "Queued", "Repeated", "Running"),
    "stowage.torch": ("fit", "report", "unfit"),
}

__all__ = [
    "AbortedError",
    "Answer",
    "BudgetError",
    "BusyError",
    "CancelledError",
    "Chain",
    "ChainWarning",
    "Client",
    "ComparedSchedule",
    "Component",
    "DataLossError",
    "DeadlineError",
    "Device",
    "Explanation",
    "Export",
    "ExportTarget",
    "ExportedPlan",
    "FailedPreconditionError",
    "FieldViolation",
    "FirstSweep",
    "Fit",
    "Frontier",
    "FrontierPoint",
    "GraphCosts",
    "Holding",
    "HoldingKind",
    "Idle",
    "Improved",
    "InfeasibleError",
    "InternalError",
    "InvalidRequestError",
    "Job",
    "Limit",
    "MissingExtraError",
    "Mode",
    "NotAChainError",
    "Operation",
    "OperationKind",
    "Origin",
    "Outcome",
    "Peak",
    "PermissionDeniedError",
    "Phase",
    "PlanSource",
    "Planned",
    "Platform",
    "Prediction",
    "Queued",
    "Repeated",
    "RoundingLoss",
    "Running",
    "SaveOption",
    "Schedule",
    "Simulation",
    "SolveMemoryError",
    "SolveOptions",
    "SolverDescription",
    "Source",
    "Stage",
    "StageFate",
    "StowageError",
    "TimelineEntry",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Verdict",
    "export",
    "export_targets",
    "fit",
    "frontier",
    "memory_range",
    "plan",
    "report",
    "simulate",
    "solve",
    "solvers",
    "unfit",
]


def __getattr__(name: str) -> object:
    module = next((module for module, names in _LAZY.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'stowage' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Steps as Chrome traces: JSON for chrome://tracing and ui.perfetto.dev, as `stowage-train` writes.

Events of the format: "X" is an interval on a thread of a process, "C" a counter, "M" a name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stowage.model import Chain, Mode, Operation, OperationKind, Schedule
from stowage.simulation import TimelineEntry, replay

if TYPE_CHECKING:
    from stowage.answer import Answer

MEASURED, PREDICTED = 1, 2
"""Process numbers in the trace."""

_PROCESSES = {MEASURED: "measured", PREDICTED: "predicted"}
_QUEUES = ("compute", "to host", "to device")
_QUEUE_OF = {OperationKind.OFFLOAD: 1, OperationKind.PREFETCH: 2}
_TRANSFERS = (OperationKind.OFFLOAD, OperationKind.RELEASE, OperationKind.PREFETCH)


def answer(answer: Answer, chain: Chain | None) -> str:
    """The predicted step of an answer; see Answer.trace."""
    chain, schedule, simulation = replay(answer, chain)
    return steps(chain, schedule, {PREDICTED: simulation.timeline})


def steps(chain: Chain, schedule: Schedule, timelines: dict[int, Sequence[TimelineEntry]]) -> str:
    """The trace of one or two runs of a schedule, side by side.

    Args:
        chain: Has the names of the stages.
        schedule: What ran.
        timelines: By process number, MEASURED or PREDICTED: one entry an operation.
    """
    events: list[dict[str, Any]] = []
    for process, timeline in timelines.items():
        events += _names(process)
        for index, (operation, entry) in enumerate(zip(schedule.operations, timeline, strict=True)):
            events += _events(process, index, operation, entry, chain)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def operation_name(operation: Operation) -> str:
    """As "BACKWARD 4"; of a fusion group "BACKWARD 2-4 graph"."""
    group = operation.first_stage is not None and operation.first_stage != operation.stage
    stages = f"{operation.first_stage}-{operation.stage}" if group else str(operation.stage)
    mode = " graph" if operation.mode is Mode.GRAPH else ""
    return f"{operation.kind.name} {stages}{mode}"


def _names(process: int) -> list[dict[str, Any]]:
    names = [("process_name", 0, _PROCESSES[process])]
    names += [("thread_name", queue, name) for queue, name in enumerate(_QUEUES)]
    return [
        {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}
        for what, thread, name in names
    ]


def _events(
    process: int, index: int, operation: Operation, entry: TimelineEntry, chain: Chain
) -> list[dict[str, Any]]:
    """An interval, and for a computation the memory."""
    if operation.kind is OperationKind.RELEASE:
        return []  # takes no time
    start = entry.start_seconds * 1e6
    arguments: dict[str, Any] = {"operation": index}
    if 0 < operation.stage <= len(chain.stages) and chain.stages[operation.stage - 1].name:
        arguments["stage"] = chain.stages[operation.stage - 1].name
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "pid": process,
            "tid": _QUEUE_OF.get(operation.kind, 0),
            "name": operation_name(operation),
            "ts": start,
            "dur": (entry.end_seconds - entry.start_seconds) * 1e6,
            "args": arguments,
        }
    ]
    if operation.kind not in _TRANSFERS:
        memory = {"bytes": entry.memory_bytes}
        events.append(
            {"ph": "C", "pid": process, "name": "device memory", "ts": start, "args": memory}
        )
    return events

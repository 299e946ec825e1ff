"""Draws answers and frontiers with matplotlib (the extra `plot`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stowage import native
from stowage.errors import MissingExtraError
from stowage.model import Chain, Operation, OperationKind, Schedule
from stowage.outcome import Outcome
from stowage.simulation import TimelineEntry, replay

try:
    from matplotlib.figure import Figure
except ImportError as missing:
    raise MissingExtraError(
        "plots need matplotlib: pip install 'stowage-planner[plot]'"
    ) from missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from stowage.answer import Answer, Frontier

Timeline = tuple[TimelineEntry, ...]

# Of Okabe and Ito: told apart by everybody.
FORWARD, RECOMPUTE, BACKWARD = "#56b4e9", "#e69f00", "#0072b2"
TO_HOST, TO_DEVICE = "#009e73", "#cc79a7"
_LANES = ("compute", "to host", "to device")
_PLACES = {
    OperationKind.BACKWARD: (0, BACKWARD),
    OperationKind.OFFLOAD: (1, TO_HOST),
    OperationKind.PREFETCH: (2, TO_DEVICE),
}
_FORWARDS = (
    OperationKind.FORWARD_SAVE,
    OperationKind.FORWARD_CHECKPOINT,
    OperationKind.FORWARD_DISCARD,
    OperationKind.FORWARD_SAVE_DISCARD,
)


def answer(answer: Answer, chain: Chain | None, figure: Figure | None = None) -> Figure:
    """Draws one step: a lane a queue, and the memory below; see Answer.plot."""
    chain, schedule, simulation = replay(answer, chain)
    if figure is None:
        figure = _new_figure(9.0, 4.5)
    lanes, memory = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [2, 3], "hspace": 0.08}
    )
    unit, scale = _unit(simulation.timeline)
    _draw_lanes(lanes, schedule, simulation.timeline, scale)
    _draw_memory(memory, answer, schedule, simulation.timeline, scale)
    memory.set_xlabel(f"time in the step [{unit}]")
    lanes.set_title(_title(answer, chain), fontsize="medium", loc="left")
    return figure


def frontier(frontier: Frontier, axes: Axes | None = None) -> Axes:
    """Draws the step's time over the budget; see Frontier.plot."""
    if axes is None:
        axes = _new_figure(6.0, 4.0).subplots()
    points = [
        (point.memory_bytes / 2**30, point.prediction.makespan_seconds, point.outcome)
        for point in frontier.points
        if point.prediction is not None
    ]
    memory = [point[0] for point in points]
    seconds = [point[1] for point in points]
    axes.step(memory, seconds, where="post", color=BACKWARD, linewidth=1)
    for outcome, fill in ((Outcome.OPTIMAL, BACKWARD), (Outcome.FEASIBLE, "white")):
        chosen = [point for point in points if point[2] is outcome]
        if chosen:
            axes.plot(
                [point[0] for point in chosen],
                [point[1] for point in chosen],
                "o",
                color=BACKWARD,
                markerfacecolor=fill,
                markersize=5,
                label=outcome.name.lower(),
            )
    if frontier.knee is not None:
        _mark_knee(axes, frontier)
    axes.set_xlabel("memory for activations [GiB]")
    axes.set_ylabel("step [s]")
    axes.set_ylim(0, 1.15 * max(seconds, default=1.0))
    axes.grid(alpha=0.3)
    if points:
        axes.legend(frameon=False)
    return axes


def _new_figure(width: float, height: float) -> Figure:
    """Of pyplot where the caller uses it, so that show() and notebooks find the figure."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        figure: Figure = pyplot.figure(figsize=(width, height), layout="constrained")
        return figure
    return Figure(figsize=(width, height), layout="constrained")


def _unit(timeline: Timeline) -> tuple[str, float]:
    longest = max((entry.end_seconds for entry in timeline), default=0.0)
    if longest >= 2:
        return "s", 1.0
    return ("ms", 1e3) if longest >= 2e-3 else ("µs", 1e6)


def _lane_and_color(operation: Operation, seen: set[int]) -> tuple[int, str] | None:
    """Where an operation is drawn; None: it takes no time."""
    if operation.kind in _FORWARDS:
        repeated = operation.stage in seen
        seen.add(operation.stage)
        return 0, RECOMPUTE if repeated else FORWARD
    return _PLACES.get(operation.kind)


def _draw_lanes(axes: Axes, schedule: Schedule, timeline: Timeline, scale: float) -> None:
    seen: set[int] = set()
    bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for operation, entry in zip(schedule.operations, timeline, strict=True):
        place = _lane_and_color(operation, seen)
        if place is not None:
            span = (entry.end_seconds - entry.start_seconds) * scale
            bars.setdefault(place, []).append((entry.start_seconds * scale, span))
    used = sorted({lane for lane, _ in bars})
    names = {
        FORWARD: "forward",
        RECOMPUTE: "recomputed",
        BACKWARD: "backward",
        TO_HOST: "to host",
        TO_DEVICE: "to device",
    }
    for (lane, color), spans in sorted(bars.items(), key=lambda bar: list(names).index(bar[0][1])):
        axes.broken_barh(
            spans,
            (-used.index(lane) - 0.4, 0.8),
            facecolors=color,
            edgecolor="white",
            linewidth=0.2,
            label=names[color],
        )
    axes.set_yticks([-i for i in range(len(used))], [_LANES[lane] for lane in used])
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")


def _draw_memory(
    axes: Axes, answer: Answer, schedule: Schedule, timeline: Timeline, scale: float
) -> None:
    """Of the computations alone: a copy's memory is that of the computation beside it."""
    entries = [
        entry
        for operation, entry in zip(schedule.operations, timeline, strict=True)
        if operation.kind in _FORWARDS or operation.kind is OperationKind.BACKWARD
    ]
    budget = answer.platform.memory_bytes if answer.platform is not None else None
    most = max([budget or 0, *(max(entry.memory_bytes, entry.host_bytes) for entry in entries)])
    unit, divisor = ("GiB", 2**30) if most >= 2**31 else ("MiB", 2**20)
    times = [entry.start_seconds * scale for entry in entries] + [entries[-1].end_seconds * scale]
    device = [entry.memory_bytes / divisor for entry in [*entries, entries[-1]]]
    host = [entry.host_bytes / divisor for entry in [*entries, entries[-1]]]
    axes.step(times, device, where="post", color=BACKWARD, label="device")
    axes.fill_between(times, device, step="post", color=BACKWARD, alpha=0.15)
    if any(host):
        axes.step(times, host, where="post", color=TO_HOST, label="host")
    if budget is not None:
        line = axes.axhline(budget / divisor, color="black", linewidth=1, linestyle="--")
        line.set_label("budget")
    axes.set_ylim(0, most / divisor * 1.08)
    axes.set_ylabel(f"memory [{unit}]")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")


def _mark_knee(axes: Axes, frontier: Frontier) -> None:
    assert frontier.knee is not None
    point = frontier.points[frontier.knee]
    assert point.prediction is not None
    axes.annotate(
        f"knee: {native.format_bytes(point.memory_bytes)}",
        (point.memory_bytes / 2**30, point.prediction.makespan_seconds),
        xytext=(12, 18),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "linewidth": 0.8},
    )


def _title(answer: Answer, chain: Chain) -> str:
    assert answer.prediction is not None
    solver = answer.origin.solver if answer.origin is not None else "stowage"
    step = native.format_seconds(answer.prediction.makespan_seconds)
    peak = native.format_bytes(answer.prediction.peak_memory_bytes)
    overhead = f"{answer.prediction.overhead:+.1%}"
    return f"{chain.name or 'chain'}: {step} a step ({overhead}), peak {peak}, by {solver}"

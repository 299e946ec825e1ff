"""Answers and frontiers as notebooks show them: small tables without external resources."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from stowage import native
from stowage.outcome import Outcome

if TYPE_CHECKING:
    from stowage.answer import Answer, Frontier, FrontierPoint

_MAX_NOTES = 5
_CELL = 'style="text-align:left;padding:1px 12px 1px 0"'
_NUMBER = 'style="text-align:right;padding:1px 12px 1px 0"'


def answer(answer: Answer) -> str:
    """A row a figure."""
    solver = answer.origin.solver if answer.origin is not None else ""
    head = f"{solver}: {answer.outcome.name}"
    rows: list[tuple[str, str]] = []
    if answer.platform is not None and answer.platform.memory_bytes is not None:
        rows.append(("budget", native.format_bytes(answer.platform.memory_bytes)))
    rows += [("warning", f"{one.field}: {one.problem}") for one in answer.warnings]
    prediction = answer.prediction
    if prediction is None:
        if answer.minimum_memory_bytes is not None:
            rows.append(("least memory", native.format_bytes(answer.minimum_memory_bytes)))
        rows.append(("memory floor", native.format_bytes(answer.memory_floor_bytes)))
        return _table(head, rows)
    bound = native.format_seconds(prediction.lower_bound_seconds)
    rows += [
        ("peak", native.format_bytes(prediction.peak_memory_bytes)),
        (
            "step",
            f"{native.format_seconds(prediction.makespan_seconds)} "
            f"({prediction.overhead:+.1%} over storing everything)",
        ),
        ("recomputed", native.format_seconds(prediction.recompute_seconds)),
        ("waiting for transfers", native.format_seconds(prediction.idle_seconds)),
        ("no schedule is faster than", f"{bound} (gap {prediction.gap:.1%})"),
    ]
    if prediction.peak_host_bytes:
        rows.append(("host memory", native.format_bytes(prediction.peak_host_bytes)))
    if answer.explanation is not None:
        rows += [("note", note) for note in answer.explanation.notes[:_MAX_NOTES]]
    return _table(head, rows)


def frontier(frontier: Frontier) -> str:
    """A row a budget."""
    head = "".join(
        f"<th {_NUMBER}>{name}</th>" for name in ("budget", "step", "overhead", "peak")
    ) + "".join(f"<th {_CELL}>{name}</th>" for name in ("outcome", "solver", ""))
    rows = [
        _point_row(point, "knee" if i == frontier.knee else "")
        for i, point in enumerate(frontier.points)
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _point_row(point: FrontierPoint, remark: str) -> str:
    numbers = [native.format_bytes(point.memory_bytes), "", "", ""]
    if point.prediction is not None and point.outcome is not Outcome.INFEASIBLE:
        numbers[1:] = [
            native.format_seconds(point.prediction.makespan_seconds),
            f"{point.prediction.overhead:+.1%}",
            native.format_bytes(point.prediction.peak_memory_bytes),
        ]
    cells = [f"<td {_NUMBER}>{html.escape(text)}</td>" for text in numbers]
    words = (point.outcome.name, point.solver, remark)
    cells += [f"<td {_CELL}>{html.escape(text)}</td>" for text in words]
    return f"<tr>{''.join(cells)}</tr>"


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    body = "".join(
        f"<tr><td {_CELL}>{html.escape(name)}</td><td {_CELL}>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return (
        f'<table><thead><tr><th colspan="2" {_CELL}>{html.escape(head)}</th></tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )

"""The folders of the C++ code and their includes as a Mermaid graph, in a document between two
lines that say who writes it.
"""

from __future__ import annotations

from collections.abc import Mapping

BEGIN = "<!-- deploy/dev/layers --update writes the lines from here -->"
END = "<!-- to here -->"

Edges = Mapping[str, set[str]]  # a folder, and the others that it includes


def with_graph(document: str, edges: Edges) -> str:
    """The document with the graph of these edges. Raises ValueError where a line is missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"lacks the line {END if begin else BEGIN}")
    graph = _lines(_without_implied(_folded(edges)))
    return "\n".join([before + BEGIN, "", *graph, "", END + after])


def _folded(edges: Edges) -> dict[str, set[str]]:
    """With the folders below the second level drawn as the one above them, unless that closes a
    cycle.
    """
    folded = {folder: set(others) for folder, others in edges.items()}
    deep = {folder.rpartition("/")[0] for folder in edges if folder.count("/") >= 2}
    for parent in sorted(deep, key=lambda name: (-name.count("/"), name)):
        joined = _joined(folded, parent)
        if not any(name in _reached(joined, name) for name in joined):
            folded = joined
    return folded


def _joined(edges: Edges, parent: str) -> dict[str, set[str]]:
    """With the folder in the place of those within it."""
    joined: dict[str, set[str]] = {}
    for name, others in edges.items():
        of_name = joined.setdefault(_above(name, parent), set())
        of_name |= {_above(other, parent) for other in others}
    return {name: others - {name} for name, others in joined.items()}


def _above(folder: str, parent: str) -> str:
    return parent if folder.startswith(f"{parent}/") else folder


def _reached(edges: Edges, folder: str) -> set[str]:
    """What the folder includes, and what that includes, and so on."""
    found: set[str] = set()
    waiting = [folder]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _without_implied(edges: Edges) -> dict[str, set[str]]:
    """Without each edge for which there is a longer way. Requires: no cycle."""
    return {
        name: {
            other
            for other in others
            if not any(other in _reached(edges, third) for third in others - {other})
        }
        for name, others in edges.items()
    }


def _lines(edges: Edges) -> list[str]:
    names = sorted(edges.keys() | {other for others in edges.values() for other in others})
    lines = ["```mermaid", "graph TD"]
    for top in sorted({name.split("/")[0] for name in names}):
        lines.append(f'  subgraph in_{top}["{top}"]')
        for name in names:
            if name.split("/")[0] == top:
                label = f"{top}/*.cc" if name == top else name.removeprefix(f"{top}/")
                lines.append(f'    {_id(name)}["{label}"]')
        lines.append("  end")
    for name in sorted(edges):
        lines += [f"  {_id(name)} --> {_id(other)}" for other in sorted(edges[name])]
    return [*lines, "```"]


def _id(folder: str) -> str:
    return folder.replace("/", "_")

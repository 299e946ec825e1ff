"""What jobs lose that can only use the settings of their framework, without a link.

usage: framework_settings.py [--networks PATTERNS] [--alphas LIST] [--output DIR]

Reproduces the two tables of solver/README.md, "What frameworks' settings cost": how much longer the
makespan is than auto's within the same memory, and how much longer that of a usual setting is than
the best within the memory that it takes. A layer is a stage of a profile, or, where its names say
so, a transformer block of two stages.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from common import (
    chains_of,
    finish,
    makespan,
    numbers,
    panels,
    parser,
    percent,
    print_table,
    progress,
)

from stowage import Chain, Operation, OperationKind, Platform, Schedule, simulate

CLASSES = ("flat", "per_layer", "uniform", "block", "every_nth")
NO_LINK = Platform()
UNLIMITED = Platform(memory_bytes=1 << 61)
SUGGESTIONS = {"every layer": 1, "every second layer": 2}
"""Usual settings: of so many layers the last one is recomputed."""

Excess = dict[tuple[str, str], list[float | None]]
"""Of each profile, by row and column; None: no plan fits."""


def with_layers(chain: Chain) -> Chain:
    """Has "block3.attention" and "block3.mlp" as one layer."""
    halves = (".attention", ".mlp")
    stages = [
        replace(one, fusion_group=one.name.partition(".")[0]) if one.name.endswith(halves) else one
        for one in chain.stages
    ]
    return replace(chain, stages=tuple(stages))


def layers_of(chain: Chain) -> list[list[int]]:
    """The stages of each, from 1."""
    numbered = enumerate(chain.stages, 1)
    grouped = itertools.groupby(numbered, lambda one: one[1].fusion_group or one[0])
    return [[number for number, _ in group] for _, group in grouped]


def usual_schedule(chain: Chain, every: int) -> Schedule:
    """Of `every` layers the last one keeps its input alone, and runs again in its backward, as
    torch.utils.checkpoint does; the others are saved."""
    kind = OperationKind
    layers = layers_of(chain)
    loss = len(chain.stages) + 1

    def forwards(index: int) -> Iterator[tuple[OperationKind, int]]:
        recomputed = index % every == every - 1
        for position, stage in enumerate(layers[index]):
            first = kind.FORWARD_CHECKPOINT if position == 0 else kind.FORWARD_DISCARD
            yield (first if recomputed else kind.FORWARD_SAVE), stage

    steps = [step for index in range(len(layers)) for step in forwards(index)]
    steps += [(kind.FORWARD_SAVE, loss), (kind.BACKWARD, loss)]
    for index in reversed(range(len(layers))):
        if index % every == every - 1:
            steps += [(kind.FORWARD_SAVE, stage) for stage in layers[index]]
        steps += [(kind.BACKWARD, stage) for stage in reversed(layers[index])]
    return Schedule(operations=tuple(Operation(kind=one, stage=stage) for one, stage in steps))


def losses(chain: Chain, alphas: Sequence[float], into: Excess) -> None:
    """Adds by how much each class is slower than auto."""
    for alpha in alphas:
        best = makespan(chain, NO_LINK, percent(alpha), "auto")
        for name in CLASSES if best is not None else ():
            seconds = makespan(chain, NO_LINK, percent(alpha), name)
            into[percent(alpha), name].append(None if seconds is None else seconds / best - 1)


def gains(chain: Chain, into: Excess) -> None:
    """Adds by how much the usual settings are slower than the best within their memory."""
    for what, every in SUGGESTIONS.items():
        usual = simulate(chain, UNLIMITED, usual_schedule(chain, every)).prediction
        for name in (*CLASSES, "auto"):
            seconds = makespan(chain, NO_LINK, usual.peak_memory_bytes, name)
            excess = None if seconds is None else usual.makespan_seconds / seconds - 1
            into[what, name].append(excess)


def print_excess(corner: str, found: Excess) -> None:
    """Mean and most in percent, and in brackets how many profiles have no plan."""
    rows = list(dict.fromkeys(row for row, _ in found))
    columns = list(dict.fromkeys(column for _, column in found))

    def cell(values: list[float | None]) -> str:
        known = [100 * value for value in values if value is not None]
        if not known:
            return f"({len(values)})"
        missing = len(values) - len(known)
        return f"{statistics.mean(known):.2f}, {max(known):.2f} ({missing})"

    print_table(
        (corner, *columns), [(row, *(cell(found[row, one]) for one in columns)) for row in rows]
    )


def main(arguments: Sequence[str] | None = None) -> tuple[Excess, Excess]:
    """Returns losses against auto, and gains over the usual settings."""
    flags = parser(__doc__)
    flags.add_argument("--alphas", type=numbers, default="0.05,0.1,0.2,0.4,0.8", metavar="LIST")
    options = flags.parse_args(arguments)
    lost: Excess = defaultdict(list)
    gained: Excess = defaultdict(list)
    for name, chain in chains_of(options.networks).items():
        progress(name)
        losses(with_layers(chain), options.alphas, lost)
        gains(with_layers(chain), gained)
    print("Slower than auto within the same memory, in %: mean, most (profiles without a plan)\n")
    print_excess("memory", lost)
    print("\nA usual setting slower than the best within its memory, in %: mean, most (none)\n")
    print_excess("setting", gained)
    figure, (axes,) = panels(1)
    for name in CLASSES:
        means = [
            statistics.mean([one for one in lost[percent(alpha), name] if one is not None] or [0])
            for alpha in options.alphas
        ]
        axes.plot(options.alphas, [100 * mean for mean in means], marker="o", label=name)
    axes.set_xlabel("memory α")
    axes.set_ylabel("slower than auto [%]")
    finish(figure, axes, options.output / "framework_settings.png")
    return lost, gained


if __name__ == "__main__":
    main()

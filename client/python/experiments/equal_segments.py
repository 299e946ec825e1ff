"""RR-9302's claim: with the memory that equal segments need, rotor trains faster.

usage: equal_segments.py [--networks PATTERNS] [--output DIR]

Checks section 5.4 of "Optimal checkpointing for heterogeneous chains: how to train deep neural
networks with limited memory" (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova; Inria RR-9302), on
the profiles of tests/data: at the count of segments of the highest throughput rotor gained 17.2 %
on average there. `periodic` is tried with at most ten counts, spread evenly from 2 to 2 sqrt(L) as
in section 5.3, each with the memory that it happens to need; rotor gets the same. The report's
times were measured, and left out what a GPU of 16 GB had no room for; these are the simulator's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from common import chains_of, finish, panels, parser, print_table, progress

from stowage import Chain, solve

UNLIMITED = 1 << 61
MOST_COUNTS = 10


@dataclass(frozen=True)
class Comparison:
    """At one count of segments, within the memory that they need."""

    segments: int
    memory_bytes: int
    periodic_seconds: float
    rotor_seconds: float

    @property
    def gain(self) -> float:
        """How much more training a second."""
        return self.periodic_seconds / self.rotor_seconds - 1


def segment_counts(length: int) -> list[int]:
    last = max(2, int(2 * math.sqrt(length)))
    steps = min(MOST_COUNTS, last - 1) - 1
    return [2, *(2 + (last - 2) * i // steps for i in range(1, steps + 1))]


def compare(chain: Chain, segments: int) -> Comparison:
    periodic = solve(chain, memory=UNLIMITED, solver="periodic", segments=segments).prediction
    assert periodic is not None
    rotor = solve(chain, memory=periodic.peak_memory_bytes, solver="rotor").prediction
    assert rotor is not None
    return Comparison(
        segments, periodic.peak_memory_bytes, periodic.makespan_seconds, rotor.makespan_seconds
    )


def fastest(comparisons: Sequence[Comparison]) -> Comparison:
    return min(comparisons, key=lambda one: (one.periodic_seconds, one.memory_bytes))


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Comparison]]:
    """Returns the comparisons of each network."""
    options = parser(__doc__).parse_args(arguments)
    found: dict[str, list[Comparison]] = {}
    rows = []
    for name, chain in chains_of(options.networks).items():
        progress(name)
        counts = segment_counts(len(chain.stages))
        found[name] = [compare(chain, segments) for segments in counts]
        best = fastest(found[name])
        rows.append(
            (
                name,
                f"{len(chain.stages)}",
                f"{best.segments}",
                f"{best.memory_bytes / 2**30:.3f}",
                f"{best.periodic_seconds:.4f}",
                f"{best.rotor_seconds:.4f}",
                f"{best.gain:+.2%}",
                f"{statistics.mean(one.gain for one in found[name]):+.2%}",
            )
        )
    print_table(
        ("profile", "L", "segments", "memory GiB", "periodic s", "rotor s", "gain", "mean gain"),
        rows,
    )
    best_gain = statistics.mean(fastest(one).gain for one in found.values())
    mean_gain = statistics.mean(
        statistics.mean(comparison.gain for comparison in one) for one in found.values()
    )
    print(f"average: {best_gain:+.2%} at the best count (RR-9302: +17.2%), {mean_gain:+.2%} of all")
    figure, (axes,) = panels(1)
    axes.scatter([best.segments for best in map(fastest, found.values())],
                 [100 * best.gain for best in map(fastest, found.values())],
                 label="a profile, at its best count")  # fmt: skip
    axes.set_xlabel("segments")
    axes.set_ylabel("rotor's gain [%]")
    finish(figure, axes, options.output / "equal_segments.png")
    return found


if __name__ == "__main__":
    main()

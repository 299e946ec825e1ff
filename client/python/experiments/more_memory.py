"""How often auto is slower where it has more memory.

usage: more_memory.py [--networks PATTERNS] [--links LIST] [--points N] [--every N]
                      [--output DIR]

Reproduces what solver/algorithms/README.md says under "What is not optimal": the steps, from one
budget to the next larger one, whose makespan grows. Budgets are spread evenly from the memory floor
to storing everything. A link of "12" has 12 GB/s in each direction, "12h" both directions share
them, "0" is none. The profiles of ResNet-1001 are left out: they take the most time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from common import chains_of, finish, makespan, panels, parser, print_table, progress

from stowage import Chain, Platform, memory_range

NOISE = 1e-9


@dataclass(frozen=True)
class Sweep:
    """Makespans of the budgets that have a schedule, by ascending memory."""

    network: str
    link: str
    seconds: tuple[float, ...]

    @property
    def growths(self) -> list[float]:
        """Of each step, relatively; below 0 where more memory is faster."""
        return [after / before - 1 for before, after in pairwise(self.seconds)]

    @property
    def up(self) -> int:
        return sum(growth > NOISE for growth in self.growths)

    @property
    def worst(self) -> float:
        return max(0.0, max(self.growths, default=0.0))


def platform_of(link: str) -> Platform:
    rate = float(link.removesuffix("h")) * 1e9
    return Platform(offload_bytes_per_second=rate, half_duplex=link.endswith("h"))


def sweep(network: str, chain: Chain, link: str, points: int) -> Sweep:
    floor, most = memory_range(chain)
    budgets = [floor + (most - floor) // points * i for i in range(1, points + 1)]
    seconds = [makespan(chain, platform_of(link), memory, "auto") for memory in budgets]
    return Sweep(network, link, tuple(one for one in seconds if one is not None))


def main(arguments: Sequence[str] | None = None) -> list[Sweep]:
    flags = parser(__doc__, "!preact-*")
    flags.add_argument("--links", default="12h,0", metavar="LIST")
    flags.add_argument("--points", type=int, default=100, metavar="N", help="budgets of a sweep")
    flags.add_argument("--every", type=int, default=1, metavar="N", help="one profile of so many")
    options = flags.parse_args(arguments)
    found: list[Sweep] = []
    for name, chain in list(chains_of(options.networks).items())[:: options.every]:
        for link in options.links.split(","):
            progress(f"{name}, link {link}")
            found.append(sweep(name, chain, link, options.points))
    rows = [
        (one.network, one.link, f"{len(one.growths)}", f"{one.up}", f"{one.worst:.2%}")
        for one in found
    ]
    for link in options.links.split(","):
        own = [one for one in found if one.link == link]
        steps = sum(len(one.growths) for one in own)
        worst = max(one.worst for one in own)
        rows.append(("all", link, f"{steps}", f"{sum(one.up for one in own)}", f"{worst:.2%}"))
    print_table(("profile", "link", "steps", "up", "worst"), rows)
    figure, (axes,) = panels(1)
    for link in options.links.split(","):
        growths = [100 * growth for one in found if one.link == link for growth in one.growths]
        label = f"link {link}"
        axes.plot(sorted(growths, reverse=True), label=label)
    axes.set_xlabel("steps, by what they change")
    axes.set_ylabel("makespan [%]")
    finish(figure, axes, options.output / "more_memory.png")
    return found


if __name__ == "__main__":
    main()

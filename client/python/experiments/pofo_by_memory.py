"""POFO's Figure 2: overhead over memory, link of 12 GB/s that both directions share.

usage: pofo_by_memory.py [--networks PATTERNS] [--alphas LIST] [--output DIR]

Reproduces Figure 2 of "Efficient Combination of Rematerialization and Offloading for Training DNNs"
(Beaumont, Eyraud-Dubois, Shilova; NeurIPS 2021) on the profiles of its networks in tests/data:
rotor, offloading alone, opportunist, autocapper and POFO, and `auto`, which is not in the paper.
α is a budget's share of the range from the memory floor to what storing everything takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import (
    POFO_NETWORKS,
    POFO_SOLVERS,
    Result,
    chains_of,
    draw,
    numbers,
    overhead_percent,
    parser,
    percent,
    print_summary,
    progress,
    results,
)

from stowage import Platform

LINK = Platform(offload_bytes_per_second=12e9, half_duplex=True)


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    flags = parser(__doc__, POFO_NETWORKS)
    flags.add_argument(
        "--alphas", type=numbers, default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1", metavar="LIST"
    )
    options = flags.parse_args(arguments)
    found: list[Result] = []
    for name, chain in chains_of(options.networks).items():
        progress(name)
        for alpha in options.alphas:
            found += results(name, chain, alpha, percent(alpha), LINK, POFO_SOLVERS)
    print_summary(found)
    path = options.output / "pofo_by_memory.png"
    draw(found, overhead_percent, ("memory α", "overhead [%]"), path)
    return found


if __name__ == "__main__":
    main()

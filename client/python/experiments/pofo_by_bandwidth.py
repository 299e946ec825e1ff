"""POFO's Figure 3: overhead over the link's bandwidth, which both directions share, at α = 0.2.

usage: pofo_by_bandwidth.py [--networks PATTERNS] [--bandwidths LIST] [--output DIR]

Reproduces Figure 3 of "Efficient Combination of Rematerialization and Offloading for Training DNNs"
(Beaumont, Eyraud-Dubois, Shilova; NeurIPS 2021) on the profiles of its networks in tests/data, with
the solvers of pofo_by_memory.py. Bandwidths are in GB/s.
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

ALPHA = 0.2


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    flags = parser(__doc__, POFO_NETWORKS)
    flags.add_argument(
        "--bandwidths",
        type=numbers,
        default="12,14,16,18,20,22,24,26,28,30,32,34,36",
        metavar="LIST",
    )
    options = flags.parse_args(arguments)
    found: list[Result] = []
    for name, chain in chains_of(options.networks).items():
        progress(name)
        for rate in options.bandwidths:
            link = Platform(offload_bytes_per_second=rate * 1e9, half_duplex=True)
            found += results(name, chain, rate, percent(ALPHA), link, POFO_SOLVERS)
    print_summary(found)
    path = options.output / "pofo_by_bandwidth.png"
    draw(found, overhead_percent, ("bandwidth [GB/s]", "overhead [%]"), path)
    return found


if __name__ == "__main__":
    main()

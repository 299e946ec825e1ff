"""POFO's Figure 3: overhead over the link's bandwidth, which both directions share, at α = 0.2.

usage: pofo_by_bandwidth.py [--networks PATTERNS] [--bandwidths LIST] [--output DIR]

Reproduces Figure 3 of "Efficient Combination of Rematerialization and Offloading for Training DNNs"
(Beaumont, Eyraud-Dubois, Shilova; NeurIPS 2021) on the profiles of its networks in tests/data, with
the solvers of pofo_by_memory.py. Bandwidths are in GB/s.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import Result, pofo_figure, pofo_link

ALPHA = 0.2


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    return pofo_figure(
        __doc__,
        arguments,
        name="pofo_by_bandwidth",
        flag="--bandwidths",
        places="12,14,16,18,20,22,24,26,28,30,32,34,36",
        label="bandwidth [GB/s]",
        setting=lambda gigabytes: (pofo_link(gigabytes), ALPHA),
    )


if __name__ == "__main__":
    main()

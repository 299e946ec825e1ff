"""POFO's Figure 2: overhead over memory, link of 12 GB/s that both directions share.

usage: pofo_by_memory.py [--networks PATTERNS] [--alphas LIST] [--output DIR]

Reproduces Figure 2 of "Efficient Combination of Rematerialization and Offloading for Training DNNs"
(Beaumont, Eyraud-Dubois, Shilova; NeurIPS 2021) on the profiles of its networks in tests/data:
rotor, offloading alone, opportunist, autocapper and POFO, and `auto`, which is not in the paper.
α is a budget's share of the range from the memory floor to what storing everything takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import Result, pofo_figure, pofo_link


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    return pofo_figure(
        __doc__,
        arguments,
        name="pofo_by_memory",
        flag="--alphas",
        places="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
        label="memory α",
        setting=lambda alpha: (pofo_link(12), alpha),
    )


if __name__ == "__main__":
    main()

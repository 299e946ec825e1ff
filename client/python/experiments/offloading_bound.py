"""The offloading paper's comparison with its lower bound: makespan over the bound, by memory.

usage: offloading_bound.py [--networks PATTERNS] [--alphas LIST] [--output DIR]

Reproduces section 6.3 of "Optimal GPU-CPU Offloading Strategies for Deep Neural Network Training"
(Beaumont, Eyraud-Dubois, Shilova; Euro-Par 2020): offloading alone, 12.2 GB/s that both directions
share, on POFO's networks. The bound is its Proposition 3, without recomputation: each stage runs
once, and what the peak of storing everything exceeds the budget by leaves before the peak and comes
back after it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from common import (
    POFO_NETWORKS,
    Result,
    chains_of,
    draw,
    numbers,
    parser,
    percent,
    print_table,
    progress,
    results,
)

from stowage import Chain, Platform, memory_range

SOLVERS = ("offload_vdnn", "offload_greedy", "offload_dynprog")
LINK = Platform(offload_bytes_per_second=12.2e9, half_duplex=True)


def bound_seconds(chain: Chain, alpha: float) -> float:
    stages = [*chain.stages, *([] if chain.loss is None else [chain.loss])]
    compute = sum(stage.forward_seconds + stage.backward_seconds for stage in stages)
    floor, most = memory_range(chain)
    missing = (1 - alpha) * (most - floor)
    return max(compute, 2 * missing / LINK.offload_bytes_per_second)


def main(arguments: Sequence[str] | None = None) -> dict[tuple[str, float, str], float]:
    """Returns makespans over the bound by network, α and solver, where there is a schedule."""
    flags = parser(__doc__, POFO_NETWORKS)
    flags.add_argument(
        "--alphas", type=numbers, default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1", metavar="LIST"
    )
    options = flags.parse_args(arguments)
    found: list[Result] = []
    ratios: dict[tuple[str, float, str], float] = {}
    for name, chain in chains_of(options.networks).items():
        progress(name)
        for alpha in options.alphas:
            for one in results(name, chain, alpha, percent(alpha), LINK, SOLVERS):
                found.append(one)
                if one.prediction is not None:
                    ratio = one.prediction.makespan_seconds / bound_seconds(chain, alpha)
                    ratios[name, alpha, one.solver] = ratio
    rows = []
    for solver in SOLVERS:
        own = [ratio for (_, _, name), ratio in ratios.items() if name == solver]
        rows.append((solver, f"{len(own)}", f"{statistics.mean(own):.3f}", f"{max(own):.3f}"))
    print_table(("solver", "feasible", "mean of the bound", "most"), rows)
    draw(
        found,
        lambda one: ratios.get((one.network, one.at, one.solver)),
        ("memory α", "makespan / bound"),
        options.output / "offloading_bound.png",
    )
    return ratios


if __name__ == "__main__":
    main()

"""What a half to a sixth of the memory costs: POFO's claim of 4 to 6 times less for 20 %.

usage: memory_reductions.py [--networks PATTERNS] [--reductions LIST] [--full-duplex] [--output DIR]

Checks the claim of "Efficient Combination of Rematerialization and Offloading for Training DNNs"
(Beaumont, Eyraud-Dubois, Shilova; NeurIPS 2021) that POFO trains with 4 to 6 times less memory for
less than 20 % of time, on the profiles of a V100 in tests/data, 12 GB/s. Memory is what storing
everything takes, divided. Prints how many profiles have a schedule, how many below 20 %, and the
overheads of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import (
    CHEAP,
    POFO_SOLVERS,
    Result,
    chains_of,
    draw,
    numbers,
    overhead_percent,
    parser,
    print_summary,
    print_table,
    progress,
    results,
)

from stowage import Platform, memory_range

A100 = "!*gpt2xl*,!*llama7b*"
"""The profiles of the other device."""


def print_counts(found: Sequence[Result], reductions: Sequence[float]) -> None:
    rows = []
    for what, solvers, most in (
        ("some solver has a schedule", POFO_SOLVERS, float("inf")),
        ("below +20%: rotor", ("rotor",), CHEAP),
        ("below +20%: auto", ("auto",), CHEAP),
    ):
        networks = [
            {
                one.network
                for one in found
                if one.at == reduction and one.solver in solvers
                if one.prediction is not None and one.prediction.overhead < most
            }
            for reduction in reductions
        ]
        rows.append((what, *(f"{len(names)}" for names in networks)))
    count = len({one.network for one in found})
    print_table((f"of {count} profiles", *(f"1/{one:g}" for one in reductions)), rows)


def print_overheads(found: Sequence[Result], reduction: float) -> None:
    """Of rotor and auto, and the lower bound on the overhead of any schedule."""
    rows = []
    for name in dict.fromkeys(one.network for one in found):
        own = {
            one.solver: one.prediction
            for one in found
            if one.network == name and one.at == reduction
        }
        rotor, auto = own["rotor"], own["auto"]
        if auto is not None:
            stored = auto.makespan_seconds / (1 + auto.overhead)
            bound = f"{auto.lower_bound_seconds / stored - 1:+.1%}"
            cells = ("-" if rotor is None else f"{rotor.overhead:+.1%}", f"{auto.overhead:+.1%}")
            rows.append((name, *cells, bound))
    print(f"\nOverheads at 1/{reduction:g}:")
    print_table(("profile", "rotor", "auto", "bound"), rows)


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    flags = parser(__doc__, A100)
    flags.add_argument("--reductions", type=numbers, default="2,3,4,5,6", metavar="LIST")
    flags.add_argument(
        "--full-duplex", action="store_true", help="the directions do not share the link"
    )
    options = flags.parse_args(arguments)
    link = Platform(offload_bytes_per_second=12e9, half_duplex=not options.full_duplex)
    found: list[Result] = []
    for name, chain in chains_of(options.networks).items():
        progress(name)
        _, most = memory_range(chain)
        for reduction in options.reductions:
            found += results(name, chain, reduction, int(most / reduction), link, POFO_SOLVERS)
    print_summary(found)
    print_counts(found, options.reductions)
    for reduction in options.reductions:
        print_overheads(found, reduction)
    path = options.output / "memory_reductions.png"
    draw(found, overhead_percent, ("memory divided by", "overhead [%]"), path)
    return found


if __name__ == "__main__":
    main()

"""What replays, inputs that no backward reads and further ways to save a stage bring.

usage: partial_saving.py [--networks PATTERNS] [--alphas LIST] [--output DIR]

Reproduces the table of solver/README.md, "What replays, unread inputs and further ways bring", and
the figures of its mixture of experts: how much longer auto's makespan is than storing everything,
with the chain of a transformer as it is, then with what one more field tells, added to those before
it. Without a link and with 12 GB/s; memory is a share of the range of the chain as it is.
"""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Sequence
from dataclasses import replace

from block_costs import TRANSFORMERS, Block, block_of
from common import (
    chain_of,
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

from stowage import Chain, Platform, SaveOption, Stage, memory_range, solve
from stowage.local import budget_bytes

LINKS = {"no link": Platform(), "12 GB/s": Platform(offload_bytes_per_second=12e9)}
MODELS = ("as it is", "input_unread", "replay_seconds", "save_options")

Point = tuple[str, float, str, str]
"""A network, α, a link and a model of the chain."""


def with_ways(stage: Stage, block: Block) -> Stage:
    """Each way drops what norms and activations leave. "attention" also drops what products leave,
    "products" what attention leaves. Its backward runs those again."""
    dropped = {"all": block.cheap, "attention": block.cheap + block.products}
    if block.attention.bytes > 0:
        dropped["products"] = block.cheap + block.attention
    ways = tuple(
        SaveOption(
            name=name,
            saved_bytes=stage.saved_bytes - kernels.bytes,
            backward_seconds=stage.backward_seconds + kernels.seconds,
            backward_overhead_bytes=stage.backward_overhead_bytes + kernels.bytes,
        )
        for name, kernels in dropped.items()
    )
    return replace(stage, save_options=ways)


def models_of(name: str, chain: Chain) -> dict[str, Chain]:
    """The chain as it is, then with each field in addition to those before it. Of the backwards
    only the loss's does not read its input: it needs the log-probabilities."""
    blocks = [block_of(TRANSFORMERS[name], stage) for stage in chain.stages]
    unread = replace(chain, loss=replace(chain.loss or Stage(), input_unread=True))
    replayed = [
        stage
        if block is None
        else replace(stage, replay_seconds=stage.forward_seconds - block.left_out)
        for stage, block in zip(chain.stages, blocks, strict=True)
    ]
    ways = [
        stage if block is None else with_ways(stage, block)
        for stage, block in zip(replayed, blocks, strict=True)
    ]
    models = (
        chain,
        unread,
        replace(unread, stages=tuple(replayed)),
        replace(unread, stages=tuple(ways)),
    )
    return dict(zip(MODELS, models, strict=True))


def stored_seconds(chain: Chain) -> float:
    """Of a step that stores everything."""
    stages = [*chain.stages, *([] if chain.loss is None else [chain.loss])]
    return sum(stage.forward_seconds + stage.backward_seconds for stage in stages)


def excess(chain: Chain, link: Platform, memory: int) -> float | None:
    seconds = makespan(chain, link, memory, "auto")
    return None if seconds is None else seconds / stored_seconds(chain) - 1


def summary(found: dict[Point, float], alpha: float, link: str, model: str) -> tuple[float, float]:
    """Mean and most in percent, over the networks with a schedule."""
    point = [alpha, link, model]
    values = [100 * value for (_, *rest), value in found.items() if rest == point] or [math.nan]
    return statistics.mean(values), max(values)


def print_excesses(found: dict[Point, float], alphas: Sequence[float]) -> None:
    rows = []
    for link in LINKS:
        for alpha in alphas:
            cells = (summary(found, alpha, link, model) for model in MODELS)
            texts = (f"{mean:.1f}, {most:.1f}" for mean, most in cells)
            rows.append((f"{percent(alpha)}, {link}", *texts))
    print("Longer than storing everything, in %: mean, most\n")
    print_table(("memory, link", *MODELS), rows)


def print_experts() -> None:
    """A mixture of experts (Qwen3-30B-A3B) whose routing runs once: as it is, and where dispatch
    and combine do not read their input in the backward."""
    chains = [chain_of("cases/analytic-qwen3moe"), chain_of("cases/analytic-qwen3moe-unread")]
    least = [
        solve(chain, memory=memory_range(chain)[0], solver="auto").minimum_memory_bytes
        for chain in chains
    ]
    rows = [("least memory [GB]", *("-" if one is None else f"{one / 1e9:.2f}" for one in least))]
    budgets = [(f"{size} GB", size * 10**9, "no link") for size in (40, 45, 50, 60)]
    for alpha in (0.05, 0.2, 0.5):
        budget = budget_bytes(chains[0], percent(alpha), "memory")
        budgets.append((f"{percent(alpha)}, 12 GB/s", budget, "12 GB/s"))
    for what, memory, link in budgets:
        values = [excess(chain, LINKS[link], memory) for chain in chains]
        rows.append((what, *("-" if one is None else f"{one:+.1%}" for one in values)))
    print("\nA mixture of experts: longer than storing everything\n")
    print_table(("memory, link", "as it is", "input_unread"), rows)


def draw(found: dict[Point, float], alphas: Sequence[float], path: pathlib.Path) -> None:
    figure, grid = panels(len(LINKS))
    for axes, link in zip(grid, LINKS, strict=True):
        for model in MODELS:
            means = [mean for mean, _ in (summary(found, one, link, model) for one in alphas)]
            axes.plot(alphas, means, marker="o", label=model)
        axes.set_title(link, fontsize="small")
        axes.set_xlabel("memory α")
        axes.set_ylabel("mean overhead [%]")
    finish(figure, grid[0], path)


def main(arguments: Sequence[str] | None = None) -> dict[Point, float]:
    """Returns by how much makespans are longer than storing everything, where there is a
    schedule."""
    flags = parser(__doc__, "analytic-*")
    flags.add_argument("--alphas", type=numbers, default="0.05,0.1,0.2,0.4", metavar="LIST")
    flags.add_argument("--without-experts", action="store_true", help="the transformers alone")
    options = flags.parse_args(arguments)
    found: dict[Point, float] = {}
    for name, chain in chains_of(options.networks).items():
        progress(name)
        models = models_of(name, chain)
        for alpha in options.alphas:
            memory = budget_bytes(chain, percent(alpha), "memory")
            for link, platform in LINKS.items():
                for model, described in models.items():
                    value = excess(described, platform, memory)
                    if value is not None:
                        found[name, alpha, link, model] = value
    print_excesses(found, options.alphas)
    if not options.without_experts:
        print_experts()
    draw(found, options.alphas, options.output / "partial_saving.png")
    return found


if __name__ == "__main__":
    main()

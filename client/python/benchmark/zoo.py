"""Models of many structures: a step of Stowage beside `checkpoint` around each of the same layers.

usage: zoo.py [--model NAME]... [--copies N] [--rounds N] [--threads N]

Prints a table in Markdown, of the small models that the tests train, with N copies of their sample.
The peer's peak of activations is measured first; then a copy of the model is fitted to that peak,
and another to the middle between it and plain training's. All are timed in turn, round by round.
Steps are ratios to plain training's, medians over the rounds.
"""

from __future__ import annotations

import argparse
import copy
import functools
import pathlib
import statistics
import sys
import time
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import stowage
from stowage.torch.layers.switches import Caches, without_skipping
from stowage.torch.measuring.workload import Workload, metered_step

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "training"))
import zoo
from models import Example


def loss_of(output: Any) -> Tensor:
    loss = getattr(output, "loss", None)
    if loss is None:
        first = output if isinstance(output, Tensor) else output[0]
        loss = first.float().square().mean()
    return loss


def made(name: str, copies: int) -> Example:
    example = zoo.make(name)
    Caches(example.model)

    def several(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.repeat(copies, *[1] * (value.ndim - 1))
        if isinstance(value, dict):
            return {key: several(entry) for key, entry in value.items()}
        return tuple(map(several, value)) if isinstance(value, tuple) else value

    return Example(example.model, several(example.sample))


def step(example: Example) -> float:
    begin = time.perf_counter()
    loss_of(example.forward()).backward()
    return time.perf_counter() - begin


def peak_of(example: Example) -> int:
    step(example)
    return metered_step(Workload(example.forward, loss_of, torch.device("cpu")))[1]


def fitted(example: Example, budget: int) -> Example:
    copied = example.fresh()
    stowage.fit(copied.model, copied.sample, activations=budget, loss=loss_of, verbose=False)
    return copied


def checkpointed(example: Example, layers: set[str]) -> Example:
    copied = Example(copy.deepcopy(example.model), example.sample)
    for name, module in copied.model.named_modules():
        if name in layers and any(p.requires_grad for p in module.parameters()):
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    return copied


def row(name: str, copies: int, rounds: int) -> str:
    example = made(name, copies)
    layers = stowage.fit(
        example.model, example.sample, activations="100%", loss=loss_of, verbose=False
    ).coordinator.stages
    stowage.unfit(example.model)
    names = {name for name, module in example.model.named_modules() if any(
        module in stage.modules for stage in layers
    )}  # fmt: skip
    with without_skipping(example.model):
        peer = checkpointed(example, names)
        plain_peak, peak = peak_of(example), peak_of(peer)
        middle = (plain_peak + peak) // 2
        example.model.zero_grad()
        runs = [example, peer, fitted(example, peak), fitted(example, middle)]
        for run in runs:
            step(run)
        seconds = [[step(run) for run in runs] for _ in range(rounds)]
    plain, *others = (statistics.median(times) for times in zip(*seconds, strict=True))
    ratios = [f"{other / plain:.2f}" for other in others]
    reports = [stowage.report(run.model) for run in runs[2:]]
    peaks = [f"{report.measured_peak_bytes / 2**20:.1f}" for report in reports]
    cells = [
        *(name, str(len(layers)), f"{plain_peak / 2**20:.1f}", f"{plain * 1e3:.0f}"),
        *(f"{peak / 2**20:.1f}", ratios[0], peaks[0], ratios[1], peaks[1], ratios[2]),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", choices=zoo.ZOO, help="default: all")
    parser.add_argument("--copies", type=int, default=4, help="of the sample")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print("| model | layers | plain, MiB | ms | `checkpoint`, MiB | step | ", end="")
    print("Stowage, MiB | step | in the middle, MiB | step |")
    print("|---|" + "---|" * 9)
    # `checkpoint` around DenseNet's layers fails: the list that they get has grown at replays.
    for name in arguments.model or [name for name in zoo.ZOO if name != "densenet"]:
        print(row(name, arguments.copies, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()

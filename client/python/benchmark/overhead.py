"""What the executor's own Python costs: a step with everything stored, against plain training.

usage: overhead.py [--rounds N] [--threads N]

Prints a ratio for a ResNet-50 of batch 8, and microseconds a layer for a chain of layers that do
next to nothing. `plain` is the same model twice, which is the noise; `stored` is what a schedule
that stores everything runs; `executor` has every layer run by the executor, as those that are
recomputed are. All are timed in turn, round by round; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
import torchvision
from torch import nn

from stowage.torch.coordinator import Coordinator
from stowage.torch.program import Program, everything_stored
from stowage.torch.stage import Stage
from stowage.torch.transfers import HostTransfers

EMPTY_LAYERS = 200


class Empty(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)


def run_by_executor(length: int) -> Program:
    return replace(everything_stored(length), plain=(False,) * (length + 1))


WAYS = {
    "plain": None,
    "plain again": None,
    "stored": everything_stored,
    "executor": run_by_executor,
}


@contextlib.contextmanager
def under(layers: list[nn.Module], program: Program | None) -> Iterator[None]:
    if program is None:
        yield
        return
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(layers)]
    coordinator = Coordinator(stages, program, HostTransfers(), [0])
    coordinator.install()
    try:
        yield
    finally:
        coordinator.remove()


def step(model: nn.Module, sample: torch.Tensor) -> float:
    """Its seconds."""
    begin = time.perf_counter()
    torch.autograd.backward([model(sample).float().square().mean()])
    return time.perf_counter() - begin


def medians(
    model: nn.Module, layers: list[nn.Module], sample: torch.Tensor, rounds: int
) -> dict[str, float]:
    """Seconds of a step, by way."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, program_of in WAYS.items():
            program = program_of(len(layers)) if program_of is not None else None
            with under(layers, program):
                step(model, sample)  # the first one after a change is slower
                seconds[way].append(step(model, sample))
    return {way: statistics.median(values) for way, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    resnet = torchvision.models.resnet50()
    parts = (resnet.layer1, resnet.layer2, resnet.layer3, resnet.layer4)
    blocks = [block for part in parts for block in part]
    found = medians(resnet, blocks, torch.randn(8, 3, 96, 96), options.rounds)
    print(f"ResNet-50, batch 8: a step of {found['plain'] * 1e3:.0f} ms")
    for way in list(WAYS)[1:]:
        print(f"  {way:12} {found[way] / found['plain']:.3f} of plain")

    empty = nn.Sequential(*(Empty() for _ in range(EMPTY_LAYERS)))
    sample = torch.zeros(1, requires_grad=True)
    found = medians(empty, list(empty), sample, 10 * options.rounds)
    print(f"{EMPTY_LAYERS} empty layers, forward and backward")
    for way in list(WAYS)[1:]:
        print(f"  {way:12} {(found[way] - found['plain']) / EMPTY_LAYERS * 1e6:+.1f} µs a layer")


if __name__ == "__main__":
    main()

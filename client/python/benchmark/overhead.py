"""What the executor's own Python costs: a step with everything stored, against plain training.

usage: overhead.py [--rounds N] [--threads N]

Prints a ratio for a ResNet-50 of batch 8, and microseconds a layer for a chain of layers that do
next to nothing. `plain` is the same model twice, which is the noise; `stored` is what a schedule
that stores everything runs; `executor` has every layer run by the executor, as those that are
recomputed are. Of the small layers each is replayed right before its backward: by PyTorch's own
`checkpoint`, by the executor, and by `checkpoint` with what Stowage restores and compares. All are
timed in turn, round by round; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torchvision
from torch import nn
from torch.utils.checkpoint import checkpoint

import stowage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.program import Program, everything_stored
from stowage.torch.layers.stage import Stage
from stowage.torch.tensors.transfers import HostTransfers

LAYERS = 200


class Empty(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)


class Small(nn.Module):
    """Saves a tensor that only a replay makes again."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value.sin().cos()


def replayed(length: int) -> Program:
    kind = stowage.OperationKind
    order = [(kind.FORWARD_CHECKPOINT, stage) for stage in range(1, length + 1)]
    order += [(kind.FORWARD_SAVE, length + 1), (kind.BACKWARD, length + 1)]
    for stage in range(length, 0, -1):
        order += [(kind.FORWARD_SAVE, stage), (kind.BACKWARD, stage)]
    operations = tuple(stowage.Operation(kind=step, stage=stage) for step, stage in order)
    return Program.of(stowage.Schedule(operations=operations), length)


def run_by_executor(length: int) -> Program:
    return replace(everything_stored(length), plain=(False,) * (length + 1))


WAYS = {
    "plain": None,
    "plain again": None,
    "stored": everything_stored,
    "executor": run_by_executor,
}


@contextlib.contextmanager
def checkpointed(layers: list[nn.Module]) -> Iterator[None]:
    for layer in layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


@contextlib.contextmanager
def under(layers: list[nn.Module], program: Program | None, alone: bool = False) -> Iterator[None]:
    if program is None:
        yield
        return
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(layers)]
    coordinator = Coordinator(stages, program, HostTransfers(), [0], alone=alone)
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


def under_way(
    layers: list[nn.Module], program_of: Callable[[int], Program] | None
) -> contextlib.AbstractContextManager[None]:
    return under(layers, program_of(len(layers)) if program_of is not None else None)


def replaying(layers: list[nn.Module], by: str) -> contextlib.AbstractContextManager[None]:
    if by == "checkpoint":
        return checkpointed(layers)
    return under(layers, replayed(len(layers)), alone=by == "both")


def medians(
    model: nn.Module,
    ways: dict[str, Callable[[], contextlib.AbstractContextManager[None]]],
    sample: torch.Tensor,
    rounds: int,
) -> dict[str, float]:
    """Seconds of a step, by way."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, context in ways.items():
            with context():
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
    images = torch.randn(8, 3, 96, 96)
    found = medians(resnet, ways_of(blocks), images, options.rounds)
    print(f"ResNet-50, batch 8: a step of {found['plain'] * 1e3:.0f} ms")
    for way in list(WAYS)[1:]:
        print(f"  {way:12} {found[way] / found['plain']:.3f} of plain")

    sample = torch.zeros(1, requires_grad=True)
    empty = nn.Sequential(*(Empty() for _ in range(LAYERS)))
    found = medians(empty, ways_of(list(empty)), sample, 10 * options.rounds)
    print_microseconds("empty layers", found)
    small = nn.Sequential(*(Small() for _ in range(LAYERS)))
    ways = {
        "plain": contextlib.nullcontext,
        **{
            by: functools.partial(replaying, list(small), by)
            for by in ("checkpoint", "executor", "both")
        },
    }
    print_microseconds("small layers, replayed", medians(small, ways, sample, 10 * options.rounds))


def ways_of(
    layers: list[nn.Module],
) -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    return {way: functools.partial(under_way, layers, made_by) for way, made_by in WAYS.items()}


def print_microseconds(what: str, found: dict[str, float]) -> None:
    print(f"{LAYERS} {what}, forward and backward")
    for way in list(found)[1:]:
        print(f"  {way:12} {(found[way] - found['plain']) / LAYERS * 1e6:+.1f} µs a layer")


if __name__ == "__main__":
    main()

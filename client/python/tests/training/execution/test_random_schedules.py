"""Random valid schedules with transfers and ways on a small network leave what training leaves.

Every fourth replays layers in turn, which are then run layer by layer.

STOWAGE_TEST_SCHEDULES says how many are run; thousands take some minutes.
"""

from __future__ import annotations

import functools
import os
import random

import pytest
import schedules
import torch
from device import DEVICE, generator
from models import Example, loss_of
from torch import Tensor, nn

import stowage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.program import Program
from stowage.torch.layers.stage import Stage
from stowage.torch.tensors.transfers import transfers_for

COUNT = int(os.environ.get("STOWAGE_TEST_SCHEDULES", "200"))
BATCH = 50
LENGTH = 6
WAYS = 3


class Layer(nn.Module):
    """Saves its input, its output, a mask, views and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 12)
        self.outer = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.2)
        self.register_buffer("scale", torch.full((6,), 0.5))

    def forward(self, value: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        one, two = self.inner(value).sigmoid_().chunk(2, -1)
        found = self.outer(one * two * self.scale)
        return torch.tanh(value + self.dropout(self.norm(found)) * side), side


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.side = nn.Linear(8, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(LENGTH))

    def forward(self, value: Tensor) -> Tensor:
        side = self.side(value)
        for layer in self.layers:
            value, _ = layer(value, side)
        return value


def _random_schedule(seed: int, ways: int) -> stowage.Schedule:
    """Any order that leads to each backward: values are dropped and made again at random.

    Each stage has so many ways to be saved in part.
    """
    chance = random.Random(seed)
    kind = stowage.OperationKind
    operations: list[stowage.Operation] = []
    live = {0: False}  # by value, whether it is all that its backward needs

    def forward(stage: int, saves: bool) -> None:
        if saves:
            step = kind.FORWARD_SAVE
        elif stage > 1 and chance.random() < (0.1 if live[stage - 1] else 0.5):
            step = kind.FORWARD_DISCARD
            del live[stage - 1]
        else:
            step = kind.FORWARD_CHECKPOINT
        live[stage] = saves
        option = chance.randint(0, ways) if saves else 0
        operations.append(stowage.Operation(kind=step, stage=stage, save_option=option or None))

    share = chance.random()
    for stage in range(1, LENGTH + 1):
        forward(stage, stage == LENGTH or chance.random() < share)
    operations.append(stowage.Operation(kind=kind.FORWARD_SAVE, stage=LENGTH + 1))
    operations.append(stowage.Operation(kind=kind.BACKWARD, stage=LENGTH + 1))
    for stage in range(LENGTH, 0, -1):
        if not live.get(stage, False):
            live.pop(stage, None)  # an output that nothing reads any more
            begin = max(value for value in live if value < stage)
            for inner in range(begin + 1, stage):
                # All but the last may be saved on the way, for their own backward.
                forward(inner, chance.random() < share)
            if stage - 1 not in live:
                forward(stage - 1, saves=False)
            forward(stage, saves=True)
        operations.append(stowage.Operation(kind=kind.BACKWARD, stage=stage))
        del live[stage]
        if not live[stage - 1]:
            del live[stage - 1]
    return stowage.Schedule(operations=tuple(operations))


@functools.cache
def _start() -> Example:
    torch.manual_seed(0)
    return Example(Layers(), torch.randn(8, 8, generator=generator(1)))


def _step(example: Example) -> list[Tensor]:
    """Gradients and buffers after a step from the start."""
    example.model.load_state_dict(_start().model.state_dict())
    example.model.zero_grad()
    torch.manual_seed(2)
    loss = loss_of(example.forward())
    loss.backward()
    gradients = [p.grad for p in example.model.parameters() if p.grad is not None]
    buffers = [buffer.clone() for buffer in example.model.buffers()]
    return [*gradients, *buffers, loss.detach(), torch.rand(1)]


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_schedules_are_equal_to_the_bit(first: int) -> None:
    expected = _step(_start().fresh())
    example = _start().fresh()
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(example.model.layers)]
    recordings = schedules.recorded(example, stages, (0,))
    option = stowage.SaveOption(saved_bytes=1)
    layer = stowage.Stage(output_bytes=1, saved_bytes=2, save_options=(option,) * WAYS)
    chain = stowage.Chain(stages=(layer,) * LENGTH, loss=stowage.Stage())
    platform = stowage.Platform(memory_bytes=2**40, offload_bytes_per_second=1e9)
    for seed in range(first, first + BATCH):
        chance = random.Random(seed)
        for stage, recording in zip(stages, recordings, strict=True):
            stage.ways = tuple(schedules.random_way(recording, chance) for _ in range(WAYS))
        schedule = _random_schedule(seed, WAYS if seed % 3 else 0)
        if seed % 4 == 1:
            options = [None, *range(WAYS + 1)]
            schedule = schedules.in_turn([chance.choice(options) for _ in range(LENGTH)])
        elif seed % 4:
            schedule = schedules.random_transfers(schedule, LENGTH, seed)
        stowage.simulate(chain, platform, schedule)  # it is valid
        program = Program.of(schedule, LENGTH)
        coordinator = Coordinator(stages, program, transfers_for(DEVICE), (0,), alone=seed % 4 == 1)
        coordinator.install()
        found = _step(example)
        coordinator.remove()
        assert len(found) == len(expected)
        same = [torch.equal(a, b) for a, b in zip(expected, found, strict=True)]
        assert all(same), f"seed {seed}: {same}"


def _compiled() -> Example:
    """Layer by layer."""
    example = _start().fresh()
    for layer in example.model.layers:
        layer.compile(backend="aot_eager")
    return example


def test_values_of_compiled_layers_travel() -> None:
    torch.compiler.reset()
    expected = _step(_compiled())
    example = _compiled()
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(example.model.layers)]
    for seed in range(BATCH):
        schedule = schedules.random_transfers(_random_schedule(seed, 0), LENGTH, seed)
        coordinator = Coordinator(stages, Program.of(schedule, LENGTH), transfers_for(DEVICE), (0,))
        coordinator.install()
        try:
            step = _step(example)
        finally:
            coordinator.remove()
        assert all(torch.equal(a, b) for a, b in zip(expected, step, strict=True)), seed
    torch.compiler.reset()

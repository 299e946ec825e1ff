"""Profiles of models, and schedules for them, put in place without `fit`."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

from device import DEVICE
from models import Example, loss_of
from torch import Tensor

import stowage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.program import Program
from stowage.torch.layers.discover import find_layers
from stowage.torch.layers.stage import Stage
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.walk import Arguments, Walk
from stowage.torch.measuring.workload import Workload
from stowage.torch.profiling.profiler import Profile, Profiler
from stowage.torch.profiling.recording import Recording, record
from stowage.torch.tensors.kept_results import Way
from stowage.torch.tensors.transfers import transfers_for


@dataclasses.dataclass
class Profiled:
    example: Example
    stages: list[Stage]
    slots: Sequence[int]
    profile: Profile

    @contextlib.contextmanager
    def under(self, schedule: stowage.Schedule, *, alone: bool = False) -> Iterator[None]:
        program = Program.of(schedule, len(self.stages))
        assert program.in_turn or not alone
        coordinator = Coordinator(
            self.stages,
            program,
            transfers_for(DEVICE),
            self.slots,
            alone=alone,
        )
        coordinator.install()
        try:
            yield
        finally:
            coordinator.remove()


def profiled(example: Example, *, selective: bool = False) -> Profiled:
    work = Workload(example.forward, loss_of, DEVICE)
    with unchanged(example.model, work):
        found = find_layers(example.model, work.forward, None)
    stages = [
        Stage(name, modules) for name, modules in zip(found.names, found.modules, strict=True)
    ]
    profiler = Profiler(example.model, stages, found.input_slots, work, _silent)
    profile = profiler.run("test", repeats=1, selective=selective)
    return Profiled(example, stages, found.input_slots, profile)


class _Records(Walk):
    def __init__(self, *walk: Any) -> None:
        super().__init__(*walk)
        self.recordings: list[Recording] = []

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        self.recordings.append(record(arguments, self.work))
        outputs, _ = arguments.run(gradients=True)
        return outputs


def recorded(example: Example, stages: Sequence[Stage], slots: Sequence[int]) -> list[Recording]:
    """By stage, what its forward calls."""
    work = Workload(example.forward, loss_of, DEVICE)
    records = _Records(stages, slots, work, _silent)
    with unchanged(example.model, work):
        records.walk()
    return records.recordings


def random_way(recording: Recording, chance: random.Random) -> Way:
    can_be_kept = [i for i, operator in enumerate(recording.operators) if operator.can_keep]
    share = chance.random()
    return recording.way("random", [i for i in can_be_kept if chance.random() < share])


def in_turn(options: Sequence[int | None]) -> stowage.Schedule:
    """Saves each stage by its option, and the loss; None: replays it right before its backward."""
    kind = stowage.OperationKind
    operations = [
        stowage.Operation(kind=kind.FORWARD_CHECKPOINT, stage=stage)
        if option is None
        else stowage.Operation(kind=kind.FORWARD_SAVE, stage=stage, save_option=option or None)
        for stage, option in enumerate([*options, 0], 1)
    ]
    for stage in range(len(options) + 1, 0, -1):
        if stage <= len(options) and options[stage - 1] is None:
            operations.append(stowage.Operation(kind=kind.FORWARD_SAVE, stage=stage))
        operations.append(stowage.Operation(kind=kind.BACKWARD, stage=stage))
    return stowage.Schedule(operations=tuple(operations))


def _silent(text: str, done: float) -> None:
    pass


def random_transfers(schedule: stowage.Schedule, length: int, seed: int) -> stowage.Schedule:
    """The schedule, with values sent to the host and fetched again wherever that is valid."""
    chance = random.Random(seed)
    operations: list[stowage.Operation] = []
    away: set[int] = set()  # released values
    sent: set[int] = set()  # with a copy under way
    here: set[int] = {0}
    kind = stowage.OperationKind

    def add(what: stowage.OperationKind, stage: int) -> None:
        operations.append(stowage.Operation(kind=what, stage=stage))

    def bring(stage: int) -> None:
        if stage in sent:
            add(kind.RELEASE, stage)
            sent.discard(stage)
            away.add(stage)
        if stage in away:
            add(kind.PREFETCH, stage)
            away.discard(stage)

    for operation in schedule.operations:
        stage = operation.stage
        needed = {stage - 1} | ({stage} if operation.kind == kind.BACKWARD else set())
        for value in sorted(needed):
            bring(value)
        operations.append(operation)
        if operation.kind == kind.BACKWARD:
            here -= {stage}
        if operation.kind == kind.FORWARD_DISCARD:
            here -= {stage - 1}
        if operation.kind != kind.BACKWARD and stage <= length:
            here.add(stage)
        if operation.kind == kind.BACKWARD and not _saved_before(operations, stage - 1):
            here -= {stage - 1}
        for value in sorted(here - away - sent):
            if chance.random() < 0.4:
                add(kind.OFFLOAD, value)
                sent.add(value)
        for value in sorted(sent):
            if chance.random() < 0.5:
                add(kind.RELEASE, value)
                sent.discard(value)
                away.add(value)
    return stowage.Schedule(operations=tuple(operations))


def _saved_before(operations: Sequence[stowage.Operation], stage: int) -> bool:
    """Whether value `stage` is all that its backward needs, rather than the output alone."""
    kind = stowage.OperationKind
    forwards = (kind.FORWARD_SAVE, kind.FORWARD_CHECKPOINT, kind.FORWARD_DISCARD)
    last = [o.kind for o in operations if o.stage == stage and o.kind in forwards]
    return bool(last) and last[-1] == kind.FORWARD_SAVE

"""A schedule as a program for the executor, and what is known of it before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from stowage.model import OperationKind, Schedule


class Step(IntEnum):
    """What an operation does: the values are those of `OperationKind`."""

    SAVE = 1
    CHECKPOINT = 2
    DISCARD = 3
    BACKWARD = 4
    OFFLOAD = 5
    RELEASE = 6
    PREFETCH = 7


@dataclass(frozen=True, slots=True)
class Program:
    """Operations on `length` stages, in order. Immutable; shared by all passes that run it.

    The loss is the caller's: its operations are left out.
    """

    length: int
    operations: tuple[tuple[Step, int], ...]
    first_forward: tuple[int, ...]  # by stage, 0 unused: index of its first forward
    backward: tuple[int, ...]  # by stage: index of its backward
    save_options: tuple[int, ...]  # by operation: how a forward saves; 0: all
    # By stage: it is replayed, or rerun within its backward.
    runs_again: tuple[bool, ...]
    # Values that leave the device; index 0 is the chain's input.
    travels: tuple[bool, ...]
    # By stage: it runs once, as in plain training, and what it saves stays in the caller's graph.
    # No stage is where the program has transfers, whose order its backward could not keep.
    plain: tuple[bool, ...]
    # By operation: a replay whose value the stage's own backward alone reads, right after it.
    ends_early: tuple[bool, ...]
    # The last operation to run before the caller's loss: transfers that the schedule has before the
    # loss's backward, whose begin nothing tells of.
    before_loss: int
    # The operations of the schedule that the entries came from, by index.
    source: tuple[int, ...]

    @staticmethod
    def of(schedule: Schedule, length: int) -> Program:
        """Requires: the simulator accepts the schedule for a chain of so many stages."""
        operations: list[tuple[Step, int]] = []
        save_options: list[int] = []
        source: list[int] = []
        for index, operation in enumerate(schedule.operations):
            if operation.kind is OperationKind.FORWARD_SAVE_DISCARD:
                raise ValueError(
                    f"schedule.operations[{index}]: {operation.kind.name} is not for modules, "
                    "which keep their inputs; solve the chain without input_unread"
                )
            if operation.stage <= length:
                operations.append((Step(operation.kind.value), operation.stage))
                save_options.append(operation.save_option or 0)
                source.append(index)
        first = [-1] * (length + 1)
        backward = [-1] * (length + 1)
        forwards = [0] * (length + 1)
        travels = [False] * (length + 1)
        for index, (step, stage) in enumerate(operations):
            if step <= Step.DISCARD:
                forwards[stage] += 2 if save_options[index] else 1
                if first[stage] < 0:
                    first[stage] = index
            elif step == Step.BACKWARD:
                backward[stage] = index
            else:
                travels[stage] = True
        runs_again = [count > 1 for count in forwards]
        return Program(
            length,
            tuple(operations),
            tuple(first),
            tuple(backward),
            tuple(save_options),
            tuple(runs_again),
            tuple(travels),
            (False, *(not again and not any(travels) for again in runs_again[1:])),
            _ends_early(operations, first),
            _before_loss(schedule, operations, source, first[length]),
            tuple(source),
        )

    def observing(self) -> Program:
        """The same, with every stage run by the executor, whole, so that it can be measured."""
        return replace(
            self,
            plain=(False,) * len(self.plain),
            ends_early=(False,) * len(self.operations),
        )

    @property
    def is_plain(self) -> bool:
        """Whether a step is one of plain training."""
        return all(self.plain[1:])

    @property
    def in_turn(self) -> bool:
        """Whether each stage is kept, kept in part, or replayed once, right before its backward."""
        return not any(self.travels) and all(
            step in (Step.SAVE, Step.CHECKPOINT, Step.BACKWARD)
            and (
                step == Step.BACKWARD
                or index == self.first_forward[stage]
                or (self.ends_early[index] and not self.save_options[index])
            )
            for index, (step, stage) in enumerate(self.operations)
        )

    def option_of(self, stage: int) -> int:
        """How the stage's first forward saves it; 0: all, or nothing."""
        return self.save_options[self.first_forward[stage]]


def everything_stored(length: int) -> Program:
    """Saves every stage once: no recomputation, no transfer."""
    operations: Sequence[tuple[Step, int]] = [
        *((Step.SAVE, stage) for stage in range(1, length + 1)),
        *((Step.BACKWARD, stage) for stage in range(length, 0, -1)),
    ]
    return Program(
        length,
        tuple(operations),
        (-1, *range(length)),
        (-1, *range(2 * length - 1, length - 1, -1)),
        (0,) * (2 * length),
        (False,) * (length + 1),
        (False,) * (length + 1),
        (False, *([True] * length)),
        (False,) * (2 * length),
        length - 1,
        tuple(range(2 * length)),
    )


def _ends_early(operations: Sequence[tuple[Step, int]], first: Sequence[int]) -> tuple[bool, ...]:
    early = [False] * len(operations)
    following: tuple[Step, int] | None = None  # the next forward or backward
    for index in range(len(operations) - 1, -1, -1):
        step, stage = operations[index]
        is_replay = step == Step.SAVE and index != first[stage]
        early[index] = is_replay and following == (Step.BACKWARD, stage)
        if step <= Step.BACKWARD:
            following = step, stage
    return tuple(early)


def _before_loss(
    schedule: Schedule, operations: Sequence[tuple[Step, int]], source: Sequence[int], last: int
) -> int:
    """The end of what follows the last stage's forward, at `last`, and may come before the loss."""
    length = max((stage for _, stage in operations), default=0)
    loss = next(
        (
            index
            for index, operation in enumerate(schedule.operations)
            if operation.kind == OperationKind.BACKWARD and operation.stage > length
        ),
        0,
    )
    end = last
    while (
        end + 1 < len(operations)
        and source[end + 1] < loss
        and operations[end + 1][0] in (Step.OFFLOAD, Step.RELEASE, Step.PREFETCH)
    ):
        end += 1
    return end

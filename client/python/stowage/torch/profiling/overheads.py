"""Temporary memory, by kind of operation: finer than a chain, which has one figure for forwards.

A schedule is looked for with the least of these figures, in which recomputation is as cheap as it
can be, and with the most, with which it fits in any case; what it really takes is counted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stowage.model import Chain, OperationKind, Platform, SaveOption, Schedule
from stowage.simulation import simulate
from stowage.torch.execution.program import Program, Step


@dataclass(frozen=True, slots=True)
class Overheads:
    """Of one stage, in bytes, beyond inputs and results."""

    checkpoint: int  # a forward that keeps nothing for a backward
    save: int  # a forward that saves
    backward: int
    # Of the stage's saved bytes, those of its output alone: its backward begins without them, and
    # a replay that ends early does not make them.
    unread: int
    replay: int  # such a replay, beyond the other saved bytes
    # Of the stage's saved bytes, those of what the model does after it: its backward begins without
    # them, however it was saved.
    after: int = 0
    # What autocast's cache holds of the stage until the model's forward ends: part of `passing`,
    # and of the saved bytes where all of the stage is kept.
    cast: int = 0
    # Of the stage's output, what is in the memory of its input, such as a bias that all layers hand
    # on: where both are held, it is there once.
    handed_on: int = 0


@dataclass(frozen=True, slots=True)
class ChainMemory:
    """What the stages of a chain take beside their values."""

    of_stages: tuple[Overheads, ...]
    # Gradients of parameters that several parts of the model use, held from the loss's backward on
    # until the last part has added to them.
    shared: int
    # Of what is outside of the chain, bytes that only the model's forward holds.
    passing: int
    options: tuple[tuple[SaveOption, ...], ...] = ()  # by stage; none where no stage has any

    def lean(self, chain: Chain) -> Chain:
        """The chain with the least overheads.

        A chain has no figure for what is not read, or not there any more: that is taken off what a
        replay and a backward need beside it, as far as this goes.
        """
        return self._with(
            chain,
            [
                (
                    max(0, min(o.save, o.replay - o.unread)),
                    max(0, o.backward - o.unread - self.passing),
                )
                for o in self.of_stages
            ],
            handed_on=[o.handed_on for o in self.of_stages],
        )

    def beyond_lean(self, chain: Chain) -> int:
        """By how much the hungriest stage of the lean chain may take more than any really does."""
        lean = real = 0
        for stage, o in zip(self.lean(chain).stages, self.of_stages, strict=True):
            lean = max(
                lean,
                stage.saved_bytes
                + max(stage.forward_overhead_bytes, stage.backward_overhead_bytes),
            )
            backward = o.backward - self.passing
            real = max(real, stage.saved_bytes - o.unread + max(min(o.save, o.replay), backward))
        return max(0, lean - real)

    def careful(self, chain: Chain) -> Chain:
        """The chain with the most overheads: what fits with these, fits."""
        return self._with(
            chain,
            [
                (
                    max(o.save, o.checkpoint, o.replay - o.unread) + self.shared,
                    o.backward + self.shared,
                )
                for o in self.of_stages
            ],
            self.shared,
        )

    def _with(
        self,
        chain: Chain,
        overheads: Sequence[tuple[int, int]],
        shared: int = 0,
        handed_on: Sequence[int] = (),
    ) -> Chain:
        """The chain with these overheads, its outputs without what is handed on, and its save
        options with so much more than measured.
        """
        return replace(
            chain,
            stages=tuple(
                replace(
                    stage,
                    output_bytes=stage.output_bytes - less,
                    forward_overhead_bytes=forward,
                    backward_overhead_bytes=backward,
                    save_options=tuple(
                        _raised(option, costs, shared, stage.output_bytes + forward)
                        for option, costs in zip(stage.save_options, of_stage, strict=True)
                    ),
                )
                for stage, (forward, backward), less, of_stage in zip(
                    chain.stages,
                    overheads,
                    handed_on or [0] * len(chain.stages),
                    self.options or [()] * len(chain.stages),
                    strict=True,
                )
            ),
        )

    def peak(self, chain: Chain, platform: Platform, schedule: Schedule) -> int:
        """The peak of a schedule that is valid for the chain."""
        length = len(chain.stages)
        saving = self._with(chain, [(o.save, o.backward) for o in self.of_stages])
        timeline = simulate(saving, platform, schedule).timeline
        program = Program.of(schedule, length)
        absent = self._unread(program, schedule)
        for first, last, size in self._held_twice(program):
            for index in range(first, last + 1):
                absent[index] += size
        highest = 0
        shared = 0
        passing = self.passing - self._cast_of_kept(program)
        for index, (operation, entry) in enumerate(zip(schedule.operations, timeline, strict=True)):
            more = 0
            if operation.stage > length:
                more = shared
                if operation.kind == OperationKind.BACKWARD:
                    shared, passing = self.shared, 0
            elif operation.kind in _FORWARDS or operation.kind == OperationKind.BACKWARD:
                more = shared + self._beyond_saving(operation.kind, operation.stage)
            highest = max(highest, entry.memory_bytes + more - absent[index] + passing)
        return highest - self.passing

    def _held_twice(self, program: Program) -> Iterator[tuple[int, int, int]]:
        """Bytes that the chain counts twice, from one operation to another, both included.

        Where stages are replayed in a row, what is handed on is made anew, and counted so.
        """
        if not program.in_turn:
            return
        for stage, overheads in enumerate(self.of_stages[:-1], 1):
            forward = program.first_forward[stage]
            if overheads.handed_on and program.operations[forward][0] == Step.CHECKPOINT:
                backward = program.backward[stage + 1]
                yield program.source[forward], program.source[backward], overheads.handed_on

    def _cast_of_kept(self, program: Program) -> int:
        return sum(
            overheads.cast
            for stage, overheads in enumerate(self.of_stages, 1)
            if program.operations[program.first_forward[stage]][0] == Step.SAVE
            and not program.option_of(stage)
            and not program.travels[stage]
        )

    def _unread(self, program: Program, schedule: Schedule) -> list[int]:
        """By operation: bytes of outputs that are not there, though the chain counts them."""
        unread = [0] * len(schedule.operations)
        in_part = [False] * (len(self.of_stages) + 1)  # by stage: how it was saved last
        for index, (step, stage) in enumerate(program.operations):
            begin = end = program.source[index]
            if step == Step.SAVE:
                in_part[stage] = program.save_options[index] > 0
            if in_part[stage]:
                # What is rerun may read its output, which may be among what is kept, too.
                if step == Step.BACKWARD:
                    unread[begin] = self.of_stages[stage - 1].after
                continue
            if program.ends_early[index]:
                end = program.source[program.backward[stage]] - 1
            elif step != Step.BACKWARD:
                continue
            if any(between.stage == stage for between in schedule.operations[begin + 1 : end + 1]):
                continue  # the value leaves the device
            of_stage = self.of_stages[stage - 1]
            unread[begin : end + 1] = [of_stage.unread] * (end + 1 - begin)
            if step != Step.BACKWARD:
                unread[begin] += of_stage.save - of_stage.replay
        return unread

    def _beyond_saving(self, kind: OperationKind, stage: int) -> int:
        if kind in (OperationKind.FORWARD_SAVE, OperationKind.BACKWARD):
            return 0
        overheads = self.of_stages[stage - 1]
        return overheads.checkpoint - overheads.save


_FORWARDS = (
    OperationKind.FORWARD_SAVE,
    OperationKind.FORWARD_CHECKPOINT,
    OperationKind.FORWARD_DISCARD,
)


def _raised(option: SaveOption, measured: SaveOption, shared: int, least: int) -> SaveOption:
    """Of a chain, no forward that saves needs less than one that does not, which needs `least`."""
    save = (measured.save_overhead_bytes or 0) + shared
    return replace(
        option,
        backward_overhead_bytes=measured.backward_overhead_bytes + shared,
        save_overhead_bytes=max(save, least - option.saved_bytes),
    )

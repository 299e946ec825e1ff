"""Temporary memory, by kind of operation: finer than a chain, which has one figure for forwards.

A schedule is looked for with the least of these figures, in which recomputation is as cheap as it
can be, and with the most, with which it fits in any case; what it really takes is counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stowage.local import simulate
from stowage.model import Chain, OperationKind, Platform, Schedule


@dataclass(frozen=True, slots=True)
class Overheads:
    """Of one stage, in bytes, beyond inputs and results."""

    checkpoint: int  # a forward that keeps nothing for a backward
    save: int  # a forward that saves
    backward: int


@dataclass(frozen=True, slots=True)
class ChainMemory:
    """What the stages of a chain take beside their values."""

    of_stages: tuple[Overheads, ...]
    # Gradients of parameters that several parts of the model use, held from the loss's backward on
    # until the last part has added to them.
    shared: int

    def lean(self, chain: Chain) -> Chain:
        """The chain with the least overheads."""
        return _with(chain, [(o.save, o.backward) for o in self.of_stages])

    def careful(self, chain: Chain) -> Chain:
        """The chain with the most overheads: what fits with these, fits."""
        return _with(
            chain,
            [
                (
                    max(o.save, o.checkpoint) + self.shared,
                    o.backward + self.shared,
                )
                for o in self.of_stages
            ],
        )

    def peak(self, chain: Chain, platform: Platform, schedule: Schedule) -> int:
        """The peak of a schedule that is valid for the chain."""
        lean = self.lean(chain)
        length = len(lean.stages)
        timeline = simulate(lean, platform, schedule).timeline
        highest = 0
        shared = 0
        for operation, entry in zip(schedule.operations, timeline, strict=True):
            more = 0
            if operation.stage > length:
                more = shared
                shared = self.shared if operation.kind == OperationKind.BACKWARD else shared
            elif operation.kind in _FORWARDS or operation.kind == OperationKind.BACKWARD:
                more = shared + self._beyond_lean(operation.kind, operation.stage)
            highest = max(highest, entry.memory_bytes + more)
        return highest

    def _beyond_lean(self, kind: OperationKind, stage: int) -> int:
        if kind in (OperationKind.FORWARD_SAVE, OperationKind.BACKWARD):
            return 0
        overheads = self.of_stages[stage - 1]
        return overheads.checkpoint - overheads.save


_FORWARDS = (
    OperationKind.FORWARD_SAVE,
    OperationKind.FORWARD_CHECKPOINT,
    OperationKind.FORWARD_DISCARD,
)


def _with(chain: Chain, overheads: Sequence[tuple[int, int]]) -> Chain:
    return replace(
        chain,
        stages=tuple(
            replace(stage, forward_overhead_bytes=forward, backward_overhead_bytes=backward)
            for stage, (forward, backward) in zip(chain.stages, overheads, strict=True)
        ),
    )

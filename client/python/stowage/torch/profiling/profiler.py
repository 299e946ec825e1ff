"""Measures the chain of a model: times, bytes, what the loss and the rest of the model take."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from stowage.model import Chain, SaveOption
from stowage.model import Stage as ChainStage
from stowage.torch.distributed.collectives import without_collectives
from stowage.torch.execution.other_sizes import Signature
from stowage.torch.layers.stage import Stage
from stowage.torch.measuring.comparison import PlainSteps, plain_steps
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Progress, Workload
from stowage.torch.policies import policies_of
from stowage.torch.profiling.overheads import ChainMemory
from stowage.torch.profiling.separate_bytes import SeparateBytes
from stowage.torch.profiling.stage_bytes import Bytes
from stowage.torch.profiling.stage_seconds import Seconds
from stowage.torch.profiling.ways import find_ways

_LEAST_GAIN = 0.05  # of a replay's time over its forward's


@dataclass(frozen=True, slots=True)
class Profile:
    """A chain, and what is outside of it. The chain's overheads are the most that there may be."""

    chain: Chain
    input: Signature  # of the first layer's arguments
    # Bytes that the rest of the model holds while the chain runs: what comes before the layers.
    outside_bytes: int
    # Least memory for what comes before the layers: its forward and its backward.
    outside_peak_bytes: int
    # Seconds of a plain step, and its highest memory beyond parameters and gradients; None: out of
    # memory.
    plain_seconds: float | None
    plain_peak_bytes: int | None
    memory: ChainMemory
    notes: tuple[str, ...]

    @property
    def outside_seconds(self) -> float:
        """What a plain step takes beyond the chain; 0 where it was not measured."""
        if self.plain_seconds is None:
            return 0.0
        return max(0.0, self.plain_seconds - _seconds_of(self.chain))

    def beside_plain(self, seconds: float, peak_bytes: int) -> Profile:
        """With a plain step's time, which the chain's are at most, and highest memory."""
        return replace(
            self,
            chain=_within(self.chain, seconds),
            plain_seconds=seconds,
            plain_peak_bytes=peak_bytes,
        )

    @property
    def managed_share(self) -> float:
        """Of what a plain step holds for its backward, the part that the layers hold."""
        inside = sum(stage.saved_bytes for stage in self.chain.stages)
        between = sum(overheads.after for overheads in self.memory.of_stages)
        after = self.chain.loss.saved_bytes if self.chain.loss is not None else 0
        return (inside - between) / max(1, inside + self.outside_bytes + after)


class Profiler:
    """Measures the stages of one model. Changes nothing that `unchanged` does not undo."""

    def __init__(
        self,
        model: nn.Module,
        stages: Sequence[Stage],
        input_slots: Sequence[int] | None,
        work: Workload,
        progress: Progress,
    ) -> None:
        self._model = model
        self._work = work
        self._walk = (stages, input_slots, work, progress)
        self.is_chain = input_slots is not None
        self.plain: PlainSteps | None = None  # of `run`; None: out of memory

    def run(
        self, name: str, repeats: int = 3, *, selective: bool | Sequence[str] = True
    ) -> Profile:
        """With `selective` also looks for ways to save the stages in part, or measures policies."""
        with unchanged(self._model, self._work):
            with contextlib.suppress(torch.OutOfMemoryError):
                self.plain = plain_steps(self._model, self._work)
            if self.plain is None:  # after the error, which held what the step had made
                torch.cuda.empty_cache()
                # Makes what that step did not: workspaces would be counted as a stage's bytes.
                with without_collectives(self._model):
                    Seconds(1, [None] * len(self._walk[0]), *self._walk).measure()
            profile = self.of_layers(name, repeats, selective=selective)
        if self.plain is None:
            return profile
        return profile.beside_plain(self.plain.seconds, self.plain.peak_bytes)

    def of_layers(self, name: str, repeats: int, *, selective: bool | Sequence[str]) -> Profile:
        """Without plain steps. Requires: all parameters that are trained have gradients."""
        bytes_of = (Bytes if self.is_chain else SeparateBytes)(self._model, *self._walk)
        bytes_of.measure()
        seconds = Seconds(repeats, bytes_of.replays, *self._walk)
        seconds.measure()
        chain = _timed(bytes_of.chain(name), seconds)
        if selective:
            options = find_ways(
                chain.stages, bytes_of.overheads, *self._walk, repeats, policies_of(selective)
            )
            chain = _with_options(chain, bytes_of.gathers.added_to_options(options))
        if isinstance(bytes_of, SeparateBytes):
            chain = bytes_of.with_what_follows(chain)
        memory = ChainMemory(
            tuple(bytes_of.overheads),
            bytes_of.shared_bytes(),
            bytes_of.passing_bytes,
            tuple(stage.save_options for stage in chain.stages),
        )
        return Profile(
            memory.careful(chain),
            bytes_of.input,
            bytes_of.outside_bytes,
            bytes_of.outside_peak_bytes,
            None,
            None,
            memory,
            tuple(bytes_of.notes),
        )


def _replay_seconds(forward: float, replay: float | None) -> float | None:
    """None where a replay is not shorter by more than measurements differ."""
    return None if replay is None or replay >= (1 - _LEAST_GAIN) * forward else replay


def _timed(chain: Chain, seconds: Seconds) -> Chain:
    stages = [
        replace(
            stage,
            forward_seconds=forward,
            backward_seconds=backward,
            replay_seconds=_replay_seconds(forward, replay),
        )
        for stage, (forward, backward), replay in zip(
            chain.stages, seconds.of_stages, seconds.of_replays, strict=True
        )
    ]
    return replace(chain, stages=tuple(stages), loss=_as_one(chain, sum(seconds.loss)))


def _with_options(chain: Chain, options: Sequence[Sequence[SaveOption]]) -> Chain:
    stages = [
        replace(
            stage,
            save_options=tuple(
                replace(option, backward_seconds=option.backward_seconds + stage.backward_seconds)
                for option in of_stage
            ),
        )
        for stage, of_stage in zip(chain.stages, options, strict=True)
    ]
    return replace(chain, stages=tuple(stages))


def _as_one(chain: Chain, seconds: float) -> ChainStage:
    """The loss with all of its time in its backward.

    Nothing tells of the begin of the loss's backward: what a schedule does between its forward and
    backward is done before both, and would be expected to happen beside a forward that comes later.
    """
    loss = chain.loss or ChainStage()
    gradient = chain.stages[-1].gradient_bytes or 0  # which the forward does not have yet
    return replace(
        loss,
        forward_seconds=0.0,
        backward_seconds=seconds,
        backward_overhead_bytes=max(
            loss.forward_overhead_bytes - gradient, loss.backward_overhead_bytes
        ),
    )


def _seconds_of(chain: Chain) -> float:
    stages = [*chain.stages, *([chain.loss] if chain.loss else [])]
    return sum(stage.forward_seconds + stage.backward_seconds for stage in stages)


def _within(chain: Chain, seconds: float) -> Chain:
    """The chain, with all times shorter where together they are more than those of a plain step.

    Where the host is hardly ahead of a GPU, the measurement of stage after stage holds it up.
    """
    factor = min(1.0, seconds / max(_seconds_of(chain), 1e-12))

    def scaled(stage: ChainStage) -> ChainStage:
        return replace(
            stage,
            forward_seconds=stage.forward_seconds * factor,
            backward_seconds=stage.backward_seconds * factor,
            replay_seconds=(
                None if stage.replay_seconds is None else stage.replay_seconds * factor
            ),
            save_options=tuple(
                replace(option, backward_seconds=option.backward_seconds * factor)
                for option in stage.save_options
            ),
        )

    return replace(
        chain,
        stages=tuple(scaled(stage) for stage in chain.stages),
        loss=scaled(chain.loss or ChainStage()),
    )

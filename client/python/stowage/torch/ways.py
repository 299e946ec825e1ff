"""Finds ways to save the layers of a model in part (solver/README.md, "Ways to save a stage").

Of equal layers, such as the blocks of a transformer, one is measured.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from stowage import native
from stowage.errors import InvalidRequestError
from stowage.model import SaveOption
from stowage.model import Stage as ChainStage
from stowage.torch.executor import Pass
from stowage.torch.gathers import made_gradients
from stowage.torch.kept_results import Way
from stowage.torch.program import saved_by
from stowage.torch.recording import Recording, UnsuitedError, record
from stowage.torch.saved_tensors import OtherRunError
from stowage.torch.stage import Stage
from stowage.torch.transfers import transfers_for
from stowage.torch.walk import Arguments, Walk, distinct
from stowage.torch.workload import Progress, Workload

_log = logging.getLogger("stowage")
_COUNT = 5  # ways of a layer at most, as of a stage of a chain
_LEAST_GAIN = 0.05  # of the bytes that a layer saves
_RECORDINGS = 3
_LONG_SECONDS = 0.02


@dataclass(slots=True)
class Kind:
    """Layers that are equal but for their weights."""

    first: int  # the number of the one that is measured
    ways: list[Way]
    reruns: list[float]  # seconds of the ways' reruns, by the operators that these run
    options: list[SaveOption] = field(default_factory=list)
    # Of all of it, then of each way; none where the operators' tell enough.
    seconds: list[list[float]] = field(default_factory=list)


def find_ways(
    chain_stages: Sequence[ChainStage],
    stages: Sequence[Stage],
    input_slots: Sequence[int] | None,
    work: Workload,
    progress: Progress,
    repeats: int,
) -> list[tuple[SaveOption, ...]]:
    """Sets the stages' ways, and returns what they take, by stage.

    A backward's seconds are those beyond the stage's own. Runs the model twice, and the first
    layer of each kind more often.
    """
    seconds = _Seconds(repeats, chain_stages, stages, input_slots, work, progress)
    seconds.walk()
    kinds = [kind for kind in seconds.kinds.values() if kind is not None]
    if work.ranks.any_of(bool(kinds)):  # all processes run the model as often
        sizes = _Bytes(kinds, stages, input_slots, work, progress)
        sizes.measure()
        for kind in kinds:
            _keep_worthwhile(kind, chain_stages[kind.first - 1])
    for stage, of_stage in zip(stages, seconds.of_stages, strict=True):
        stage.ways = tuple(of_stage.ways) if of_stage is not None else ()
    return [tuple(kind.options) if kind is not None else () for kind in seconds.of_stages]


def _keep_worthwhile(kind: Kind, stage: ChainStage) -> None:
    """Leaves those that save less than the layer does, and are quicker than all that save less."""
    # Noise only ever lengthens such short times.
    own, *others = [min(runs, default=0.0) for runs in kind.seconds]
    measured = []
    for option, seconds, rerun, way in zip(
        kind.options, others, kind.reruns, kind.ways, strict=True
    ):
        measured.append((replace(option, backward_seconds=max(seconds - own, rerun)), way))
    measured.sort(key=lambda entry: entry[0].saved_bytes)
    kept: list[tuple[SaveOption, Way]] = []
    for option, way in measured:
        if option.saved_bytes > (1 - _LEAST_GAIN) * stage.saved_bytes:
            continue
        if kept and option.backward_seconds >= kept[-1][0].backward_seconds:
            continue
        kept.append((option, way))
    kept.reverse()
    kind.options = [option for option, _ in kept]
    kind.ways = [way for _, way in kept]


class _Seconds(Walk):
    """Records each layer, chooses ways for the first of each kind, and how long they take."""

    def __init__(self, repeats: int, chain_stages: Sequence[ChainStage], *walk: Any) -> None:
        super().__init__(*walk)
        self.kinds: dict[Any, Kind | None] = {}
        self.of_stages: list[Kind | None] = []
        self._repeats = repeats
        self._chain_stages = chain_stages
        self._clock = self.work.clock()

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        self.of_stages.append(self._kind_of(number, arguments))
        outputs, _ = arguments.run(gradients=True, saves=False)
        return outputs

    def _kind_of(self, number: int, arguments: Arguments) -> Kind | None:
        stage = self._chain_stages[number - 1]
        if stage.no_recompute or stage.saved_bytes <= stage.output_bytes or _is_compiled(arguments):
            return None
        try:
            recording = record(arguments, self.work)
            key = _form(stage), tuple(arguments.chain), recording.form()
            if key not in self.kinds:
                self.kinds[key] = None  # also where that raises
                self.kinds[key] = self._measured(number, arguments, recording)
            return self.kinds[key]
        except (UnsuitedError, OtherRunError, torch.OutOfMemoryError) as error:
            _log.debug("%s is not saved in part: %s", arguments.stage.name, error)
            return None

    def _measured(self, number: int, arguments: Arguments, recording: Recording) -> Kind | None:
        for _ in range(_RECORDINGS - 1):
            again = record(arguments, self.work)
            if again.form() != recording.form():
                raise UnsuitedError("it calls other operators in each run")
            # Noise only ever lengthens such short times.
            for one, other in zip(recording.operators, again.operators, strict=True):
                one.seconds = min(one.seconds, other.seconds)
        kind = self._chosen(number, recording)
        if not kind.ways:
            return None
        arguments.stage.ways = tuple(kind.ways)
        runs = [_Run(arguments, option) for option in range(len(kind.ways) + 1)]
        kind.seconds = [[] for _ in runs]
        stage = self._chain_stages[number - 1]
        if stage.forward_seconds + stage.backward_seconds > _LONG_SECONDS:
            return kind  # what Python takes for each operator is little beside that
        for repeat in range(self._repeats + 1):
            for run, seconds in zip(runs, kind.seconds, strict=True):
                marks = self._time(run)
                if repeat > 0:
                    seconds.append(marks)
        return kind

    def _time(self, run: _Run) -> float:
        begin = self._clock.now()
        outputs, leaves = run.forward()
        middle = self._clock.now()
        roots, gradients = run.roots(outputs)
        begins = self._clock.now()
        run.backward(roots, gradients, leaves)
        end = self._clock.now()
        return self._clock.seconds(begin, middle) + self._clock.seconds(begins, end)

    def _chosen(self, number: int, recording: Recording) -> Kind:
        stage = self._chain_stages[number - 1]
        most = int((1 - _LEAST_GAIN) * (stage.saved_bytes - stage.output_bytes))
        kind = Kind(number, [], [])
        costs = [operator.cost() for operator in recording.operators]
        # An operator takes longer where the host waits for each.
        factor = min(1.0, stage.forward_seconds / max(1e-12, sum(c["seconds"] for c in costs)))
        request = {"operators": costs, "most_bytes": most, "count": _COUNT}
        try:
            ways = native.call("ways", request)["ways"]
        except InvalidRequestError:  # a time that is none, or too many operators
            return kind
        for way in ways:
            kind.ways.append(recording.way(way["name"], set(way["operators"])))
            kind.reruns.append(way["rerun_seconds"] * factor)
        return kind


class _Bytes(Walk):
    """What the ways of kinds of layers take of memory."""

    def __init__(self, kinds: Iterable[Kind], *walk: Any) -> None:
        super().__init__(*walk)
        self._kinds = {kind.first: kind for kind in kinds}
        self._meter = self.work.meter()
        self._sizes: dict[int, tuple[int, int]] = {}  # of a layer's output and input's gradient

    def measure(self) -> None:
        with self._meter:
            self.walk()
        spans = self._meter.spans
        for number, kind in self._kinds.items():
            output, gradient = self._sizes[number]
            for option, way in enumerate(kind.ways, 1):
                save = spans[f"save {number} {option}"]
                backward = spans[f"backward {number} {option}"]
                saved = max(save.after - save.before, output)
                kind.options.append(
                    SaveOption(
                        name=way.name,
                        saved_bytes=saved,
                        backward_overhead_bytes=max(0, backward.peak - backward.before - gradient),
                        save_overhead_bytes=max(0, save.peak - save.before - saved),
                    )
                )

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        kind = self._kinds.get(number)
        for option in range(1, len(kind.ways) + 1) if kind is not None else ():
            self._measure(number, option, _Run(arguments, option))
        outputs, _ = arguments.run(gradients=True, saves=False)
        return outputs

    def _measure(self, number: int, option: int, run: _Run) -> None:
        with self._meter.span(f"save {number} {option}"):
            outputs, leaves = run.forward()
        output = sum(storage.nbytes() for storage in distinct(outputs))
        roots, gradients = run.roots(outputs)
        del outputs
        made = made_gradients(run.parameters)
        with made, self._meter.span(f"backward {number} {option}"):
            torch.autograd.backward(roots, gradients, inputs=[*leaves, *run.parameters])
            del roots
        of_input = [leaf.grad for leaf in leaves if leaf.grad is not None]
        self._sizes[number] = output, sum(storage.nbytes() for storage in distinct(of_input))


class _Run:
    """A forward and backward of a layer that is saved by an option; 0: all of it."""

    def __init__(self, arguments: Arguments, option: int) -> None:
        self._arguments = arguments
        self._option = option
        self.parameters = arguments.stage.parameters()

    def forward(self) -> tuple[list[Tensor], list[Tensor]]:
        arguments = self._arguments
        if self._option == 0:
            return arguments.run(gradients=True)
        device = arguments.tensors[arguments.chain[0]].device
        run = Pass([arguments.stage], saved_by(self._option), transfers_for(device))
        return arguments.run_by(
            lambda args, kwargs: run.call(1, args, kwargs, arguments.chain), gradients=True
        )

    @staticmethod
    def roots(outputs: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        roots = [output for output in outputs if output.requires_grad]
        return roots, [torch.ones_like(root) for root in roots]

    def backward(
        self, roots: Sequence[Tensor], gradients: Sequence[Tensor], leaves: Sequence[Tensor]
    ) -> None:
        if roots:
            inputs = [*leaves, *self.parameters]
            torch.autograd.grad(roots, inputs, gradients, allow_unused=True)


def _form(stage: ChainStage) -> ChainStage:
    return replace(stage, name="", forward_seconds=0.0, backward_seconds=0.0, replay_seconds=None)


def _is_compiled(arguments: Arguments) -> bool:
    """Compiled code calls its operators where no mode sees them."""
    stage = arguments.stage
    return any(hasattr(forward, "_torchdynamo_orig_callable") for forward in stage.forwards) or any(
        module.__dict__.get("_compiled_call_impl") is not None
        or type(module).__name__ == "OptimizedModule"
        for module in stage.parts.modules()
    )

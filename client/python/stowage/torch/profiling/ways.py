"""Finds ways to save the layers of a model in part (solver/README.md, "Ways to save a stage").

Of equal layers, such as the blocks of a transformer, one is measured.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from stowage import native
from stowage.errors import InvalidRequestError
from stowage.model import SaveOption
from stowage.model import Stage as ChainStage
from stowage.torch.execution.alone import CallAlone, run_alone
from stowage.torch.layers.stage import Stage
from stowage.torch.measuring.walk import Arguments, Walk
from stowage.torch.measuring.workload import Progress, Workload
from stowage.torch.policies import kept_by
from stowage.torch.profiling.overheads import Overheads
from stowage.torch.profiling.recording import Recording, UnsuitedError, record
from stowage.torch.tensors.kept_results import Way
from stowage.torch.tensors.saved_tensors import OtherRunError

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
    overheads: Sequence[Overheads],
    stages: Sequence[Stage],
    input_slots: Sequence[int] | None,
    work: Workload,
    progress: Progress,
    repeats: int,
    policies: Sequence[str] = (),
) -> list[tuple[SaveOption, ...]]:
    """Sets the stages' ways, and returns what they take, by stage.

    A backward's seconds are those beyond the stage's own. Runs the model once, and the first
    layer of each kind more often. With `policies` the ways are these.
    """
    walk = stages, input_slots, work, progress
    finder = _Finder(repeats, policies, chain_stages, overheads, *walk)
    finder.walk()
    for stage, of_stage in zip(stages, finder.of_stages, strict=True):
        stage.ways = tuple(of_stage.ways) if of_stage is not None else ()
    return [tuple(kind.options) if kind is not None else () for kind in finder.of_stages]


def _keep_worthwhile(kind: Kind, stage: ChainStage, *, all_that_save_less: bool) -> None:
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
        is_slower = kept and option.backward_seconds >= kept[-1][0].backward_seconds
        if is_slower and not all_that_save_less:
            continue
        kept.append((option, way))
    kept.reverse()
    kind.options = [option for option, _ in kept]
    kind.ways = [way for _, way in kept]


class _Finder(Walk):
    """Records each layer, and chooses and measures ways for the first of each kind."""

    def __init__(
        self,
        repeats: int,
        policies: Sequence[str],
        chain_stages: Sequence[ChainStage],
        overheads: Sequence[Overheads],
        *walk: Any,
    ) -> None:
        super().__init__(*walk)
        self._policies = policies
        self.of_stages: list[Kind | None] = []
        self._kinds: dict[Any, Kind | None] = {}
        self._repeats = repeats
        self._chain_stages = chain_stages
        self._overheads = overheads
        self._clock = self.work.clock()

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        stage = self._chain_stages[number - 1]
        recording = kind = None
        if not (
            stage.no_recompute or stage.saved_bytes <= stage.output_bytes or _is_compiled(arguments)
        ):
            try:
                recording = record(arguments, self.work)
                kind = self._kind_of(number, arguments, recording)
            except (UnsuitedError, OtherRunError, torch.OutOfMemoryError) as error:
                _log.debug("%s is not saved in part: %s", arguments.stage.name, error)
        self.of_stages.append(kind)
        if recording is not None:
            return recording.outputs
        outputs, _ = arguments.run(gradients=True, saves=False)
        return outputs

    def _kind_of(self, number: int, arguments: Arguments, recording: Recording) -> Kind | None:
        key = _form(self._chain_stages[number - 1]), tuple(arguments.chain), recording.form()
        if key not in self._kinds:
            self._kinds[key] = None  # also where that raises
            self._kinds[key] = self._measured(number, arguments, recording)
        return self._kinds[key]

    def _measured(self, number: int, arguments: Arguments, recording: Recording) -> Kind | None:
        stage = self._chain_stages[number - 1]
        # What Python takes for each operator is little beside that, and of what is chosen the
        # operators' own times are known.
        is_long = stage.forward_seconds + stage.backward_seconds > _LONG_SECONDS
        is_long = is_long and not self._policies
        for _ in range(0 if is_long else _RECORDINGS - 1):
            again = record(arguments, self.work)
            if again.form() != recording.form():
                raise UnsuitedError("it calls other operators in each run")
            # Noise only ever lengthens such short times.
            for one, other in zip(recording.operators, again.operators, strict=True):
                one.seconds = min(one.seconds, other.seconds)
        kind = Kind(number, [], [])
        (self._add_policies if self._policies else self._add_chosen)(kind, recording)
        if not kind.ways:
            return None
        arguments.stage.ways = tuple(kind.ways)
        kind.seconds = [[] for _ in range(len(kind.ways) + 1)]
        if not is_long:
            self._measure_seconds(kind, arguments)
        self._measure_bytes(kind, number, arguments)
        _keep_worthwhile(kind, stage, all_that_save_less=bool(self._policies))
        return kind

    def _measure_seconds(self, kind: Kind, arguments: Arguments) -> None:
        parameters = arguments.stage.parameters()
        for repeat in range(self._repeats + 1):
            for way, seconds in zip((None, *kind.ways), kind.seconds, strict=True):
                measured = self._seconds(arguments, way, parameters)
                if repeat > 0:
                    seconds.append(measured)

    def _measure_bytes(self, kind: Kind, number: int, arguments: Arguments) -> None:
        stage = self._chain_stages[number - 1]
        own = self._overheads[number - 1].backward
        calls = [CallAlone(arguments.stage) for _ in kind.ways]
        with self.work.meter() as meter:
            for option, (call, way) in enumerate(zip(calls, kind.ways, strict=True)):
                with meter.span(f"save {option}"):
                    outputs, leaves = arguments.run_by(
                        functools.partial(call.run, way), gradients=True
                    )
                with meter.span(f"rerun {option}"):
                    call.run_again()
                call.forget()
                del outputs
        gradients = sum(leaf.nbytes for leaf in leaves)  # which a rerun does not have yet
        for option, way in enumerate(kind.ways):
            save, rerun = meter.spans[f"save {option}"], meter.spans[f"rerun {option}"]
            saved = max(save.after - save.before, stage.output_bytes)
            made = rerun.after - rerun.before
            # The backward's first operator finds the rerun's own copy of the output, where the
            # layer saves that; the others go on as if all had been saved.
            backward = max(
                rerun.peak - rerun.before - gradients,
                made + stage.output_bytes,
                min(made, stage.saved_bytes - saved) + own,
            )
            kind.options.append(
                SaveOption(
                    name=way.name,
                    saved_bytes=saved,
                    backward_overhead_bytes=backward,
                    save_overhead_bytes=max(0, save.peak - save.before - saved),
                )
            )

    def _seconds(self, arguments: Arguments, way: Way | None, parameters: list[Tensor]) -> float:
        """Of a forward and a backward of the layer, which a way saves; None: all of it."""
        begin = self._clock.now()
        if way is None:
            outputs, leaves = arguments.run(gradients=True)
        else:
            saving = functools.partial(run_alone, arguments.stage, way)
            outputs, leaves = arguments.run_by(saving, gradients=True)
        middle = self._clock.now()
        roots = [output for output in outputs if output.requires_grad]
        gradients = [torch.ones_like(root) for root in roots]
        begins = self._clock.now()
        if roots:
            torch.autograd.grad(roots, [*leaves, *parameters], gradients, allow_unused=True)
        end = self._clock.now()
        return self._clock.seconds(begin, middle) + self._clock.seconds(begins, end)

    def _add_policies(self, kind: Kind, recording: Recording) -> None:
        names = [operator.name for operator in recording.operators]
        for policy in self._policies:
            kept = {n for n in kept_by(policy, names) if recording.operators[n].can_keep}
            if kept:
                kind.ways.append(recording.way(policy, kept))
                kind.reruns.append(0.0)

    def _add_chosen(self, kind: Kind, recording: Recording) -> None:
        stage = self._chain_stages[kind.first - 1]
        most = int((1 - _LEAST_GAIN) * (stage.saved_bytes - stage.output_bytes))
        costs = [operator.cost() for operator in recording.operators]
        # An operator takes longer where the host waits for each.
        factor = min(1.0, stage.forward_seconds / max(1e-12, sum(c["seconds"] for c in costs)))
        request = {"operators": costs, "most_bytes": most, "count": _COUNT}
        try:
            ways = native.call("ways", request)["ways"]
        except InvalidRequestError:  # a time that is none, or too many operators
            return
        for way in ways:
            kind.ways.append(recording.way(way["name"], set(way["operators"])))
            kind.reruns.append(way["rerun_seconds"] * factor)


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

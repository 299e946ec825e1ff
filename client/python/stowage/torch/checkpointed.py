"""Runs a layer by PyTorch's own `torch.utils.checkpoint`, with a policy of what it keeps.

For layers that are replayed alone, right before their backward, or kept in part. A replay finds
what the executor's replays find, and is compared with the first run as they are. Where
torch.compile traces the model, its partitioner gets the policy: what a replay reads is then a part
of the graph.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from stowage.torch.discover import refuse_caches
from stowage.torch.kept_results import HandOn, Keep, KeptResults, Way
from stowage.torch.replay import Context, Snapshot
from stowage.torch.saved_tensors import MADE, Complete, Hooks, Note, ReplayRun
from stowage.torch.stage import Stage
from stowage.torch.structure import put_tensors, take_tensors
from stowage.torch.values import Held


def run_checkpointed(stage: Stage, way: Way | None, args: Any, kwargs: Any) -> Any:
    """The layer's output. Its backward replays the layer, or reruns what `way` does not keep."""
    refuse_caches(stage.name, args, kwargs)
    # Arguments, random numbers and the end of a replay are `CheckpointedCall`'s.
    return checkpoint(
        CheckpointedCall(stage, way, args, kwargs),
        use_reentrant=False,
        preserve_rng_state=False,
        early_stop=False,
    )


def traced_by_compile(stage: Stage, way: Way | None) -> Callable[..., Any]:
    """What torch.compile traces in the place of the layer's forward."""
    context: dict[str, Any] = {}
    if way is not None:
        context["context_fn"] = functools.partial(_contexts_of, _calls_kept(way))

    def run(*args: Any, **kwargs: Any) -> Any:
        # Where the graph breaks inside of the layer, checkpoint runs it as it stands, and a replay
        # would restore and compare nothing.
        if not torch.compiler.is_compiling():
            raise BrokenGraphError(
                f"torch.compile breaks its graph inside of {stage.name}, so that it cannot be "
                "recomputed as a part of the graph: mend that (fullgraph=True says where it is), "
                "compile the layers one by one, or pass run='stowage' to stowage.fit"
            )
        return stage.run(args, kwargs)

    def traced(*args: Any, **kwargs: Any) -> Any:
        # Arguments of the layer's may have names that are checkpoint's.
        return checkpoint(lambda: run(*args, **kwargs), use_reentrant=False, **context)

    return traced


class BrokenGraphError(RuntimeError):
    """A layer is not a part of the graph that torch.compile has traced it for."""


class CheckpointedCall:
    """One call of a layer: the first run, and replays where its backward asks for them."""

    def __init__(self, stage: Stage, way: Way | None, args: Any, kwargs: Any) -> None:
        self._stage = stage
        self._way = way
        self._arguments = args, kwargs  # the caller's own lists and dicts, for the first run
        self._tensors: list[Tensor] = []
        self._template = take_tensors((args, kwargs), self._tensors)
        self._context: Context
        self._snapshot: Snapshot | None = None  # None: it has not run yet
        self._notes: list[Note] = []
        # By note, what is there without a replay. None: a backward has taken it.
        self._held: list[Held | None] | None = None
        self._kept: KeptResults | None = None  # of a way

    def __call__(self) -> Any:
        if self._snapshot is not None:
            # As at the first run, whatever has become of lists and dicts since.
            args, kwargs = put_tensors(self._template, self._tensors)
            return self._run_again(self._snapshot, args, kwargs)
        (args, kwargs), self._arguments = self._arguments, ((), {})
        return self._run_first(args, kwargs)

    def _run_first(self, args: Any, kwargs: Any) -> Any:
        stage, way, tensors = self._stage, self._way, self._tensors
        device = tensors[0].device if tensors else torch.device("cpu")
        devices = () if device.type == "cpu" else (device,)
        self._context = Context.current(device.type)
        keep = Keep(way, stage.name, devices) if way is not None else None
        hooks = _FirstRun(stage.name, tensors, keep)
        snapshot = stage.replay.before(devices, tensors)
        with hooks, keep or contextlib.nullcontext():
            returned = stage.run(args, kwargs)
        stage.replay.after(snapshot)
        self._snapshot, self._notes, self._held = snapshot, hooks.notes, hooks.take_held()
        if keep is not None:
            self._kept = keep.results(drew=snapshot.random is not None)
        return returned

    def _run_again(self, snapshot: Snapshot, args: Any, kwargs: Any) -> None:
        stage, kept, held = self._stage, self._kept, self._held
        if held is None:
            raise RuntimeError(
                f"the backward of {stage.name} runs a second time, and what the layer had kept for "
                "it is gone. Call stowage.unfit(model) to use retain_graph"
            )
        if self._way is not None:
            self._kept = self._held = None
        hooks = _ReplayRun(self._notes, stage.name, self._tensors, held, stops=stage.can_stop)
        if not hooks.is_needed:
            hooks.hand_over(held)
            return
        hands_on = HandOn(kept, stage.name, hooks) if kept is not None and kept.outputs else None
        with (
            stage.replay.again(snapshot),
            self._context.again(),
            contextlib.suppress(Complete),
            hooks,
            hands_on or contextlib.nullcontext(),
        ):
            stage.run(args, kwargs)
            # The layer's code has caught what was to end it.
            stage.can_stop = stage.can_stop and not hooks.is_complete
        hooks.check()


def _hooks_in_use() -> tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]:
    """Those of checkpoint, which runs the layer."""
    hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(False)
    pack, unpack = hooks
    return pack, unpack


class _FirstRun(Hooks):
    """Takes notes of what checkpoint's hooks get, and holds what needs no replay."""

    def __init__(self, layer: str, tensors: Sequence[Tensor], keep: Keep | None) -> None:
        super().__init__(layer, tensors, (), saves=False, part=keep)
        self.notes: list[Note] = []
        self._held: list[Held | None] = []
        self._pack_of_checkpoint, self._unpack_of_checkpoint = _hooks_in_use()

    def _pack(self, tensor: Tensor) -> Any:
        note = self._owners.note_of(tensor)
        self.notes.append(note)
        is_there = note[0] is not MADE or (self._part is not None and self._part.has(tensor))
        self._held.append(Held(tensor, self._layer) if is_there else None)
        return self._pack_of_checkpoint(tensor)

    def _unpack(self, packed: Any) -> Tensor:
        return self._unpack_of_checkpoint(packed)

    def take_held(self) -> list[Held | None]:
        """By note; once, since autograd's graph keeps the hooks."""
        held, self._held = self._held, []
        return held


class _ReplayRun(ReplayRun):
    """Compares with the notes what checkpoint's hooks get. Of what is held they get that."""

    def __init__(
        self,
        notes: Sequence[Note],
        layer: str,
        tensors: Sequence[Tensor],
        held: Sequence[Held | None],
        *,
        stops: bool,
    ) -> None:
        super().__init__(notes, layer, tensors, (), saves=False, stops=stops)
        missing = [number for number, tensor in enumerate(held) if tensor is None]
        self.is_needed = bool(missing)
        if stops and missing:
            self._end = missing[-1] + 1
        self._of_first_run = held
        self._pack_of_checkpoint, _ = _hooks_in_use()

    def _pack(self, tensor: Tensor) -> Any:
        if self.is_complete:
            return tensor  # what runs while the layer ends
        held = self._of_first_run[self._count] if self._count < len(self._of_first_run) else None
        self.compare(tensor)
        packed = self._pack_of_checkpoint(tensor if held is None else held.get())
        if self._count == self._end:
            self.hand_over(self._of_first_run[self._end :])
        self.end_where_complete()
        return packed

    def hand_over(self, rest: Iterable[Held | None]) -> None:
        """To checkpoint, which waits for all that the first run has saved."""
        for held in rest:
            assert held is not None
            self._pack_of_checkpoint(held.get())


def all_in_turn(stage: Stage) -> Callable[..., Any]:
    """The forwards of the stage's modules as one."""
    return stage.forwards[0] if len(stage.forwards) == 1 else functools.partial(_run_all, stage)


def _run_all(stage: Stage, *args: Any, **kwargs: Any) -> Any:
    return stage.run(args, kwargs)


# An operator, and which call of it in the layer's forward.
_CallOf = tuple[Any, int]


def _calls_kept(way: Way) -> frozenset[_CallOf]:
    calls: Counter[Any] = Counter()
    kept = set()
    for number, operator in enumerate(way.operators):
        calls[operator] += 1
        if number in way.kept:
            kept.add((operator, calls[operator]))
    return frozenset(kept)


def _contexts_of(kept: frozenset[_CallOf]) -> Any:
    """For `context_fn` of checkpoint: the results of these calls are kept."""
    calls: tuple[Counter[Any], Counter[Any]] = (Counter(), Counter())

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        of_run = calls[context.is_recompute]
        of_run[operator] += 1
        if (operator, of_run[operator]) in kept:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)  # type: ignore[no-untyped-call, unused-ignore]

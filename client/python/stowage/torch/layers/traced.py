"""What torch.compile of the whole model traces in the place of a layer: PyTorch's own
`torch.utils.checkpoint`, with a policy of what the layer keeps.

The partitioner gets the policy: what a replay reads is then a part of the graph.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from stowage.torch.layers.stage import Stage
from stowage.torch.tensors.kept_results import Way


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

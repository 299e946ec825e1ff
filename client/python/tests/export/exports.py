"""What tests of exports share: exports, the code in them, and chains with ways."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

import stowage
from stowage import Chain, InfeasibleError, OperationKind

TARGETS = [target.name for target in stowage.export_targets()]
FORWARDS = (
    OperationKind.FORWARD_SAVE,
    OperationKind.FORWARD_CHECKPOINT,
    OperationKind.FORWARD_DISCARD,
)


def export(target: str, chain: Chain, memory: str, **options) -> stowage.Export:
    return stowage.export(stowage.solve(chain, memory=memory), target, **options)


def least_of(target: str, chain: Chain) -> str:
    """The least memory with which the target can express a plan, in bytes."""
    with pytest.raises(InfeasibleError) as error:
        export(target, chain, "1")
    return str(error.value.minimum_memory_bytes)


def forwards(exported: stowage.Export, stages: int) -> list[int]:
    """How often the plan runs the forward of each stage."""
    counts = Counter(
        operation.stage
        for operation in exported.exported.schedule.operations
        if operation.kind in FORWARDS
    )
    return [counts[stage] for stage in range(1, stages + 1)]


def module_of(exported: stowage.Export) -> SimpleNamespace:
    """The generated code, run as a module."""
    names: dict[str, object] = {"__name__": "exported"}
    exec(compile(exported.text, "exported.py", "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


def counted(layers) -> list[int]:
    """Counts the forwards of torch modules from now on."""
    counts = [0] * len(layers)

    def count(index: int, *_: object) -> None:
        counts[index] += 1

    for index, layer in enumerate(layers):
        layer.register_forward_pre_hook(partial(count, index))
    return counts


def ways_of(exported: stowage.Export) -> dict[int, int]:
    """The number of its way, by stage that the plan saves in part."""
    return {
        operation.stage: operation.save_option
        for operation in exported.exported.schedule.operations
        if operation.kind in FORWARDS and operation.save_option
    }


def with_way(chain: Chain, saved_bytes: int, **names: tuple[str, ...]) -> Chain:
    """The chain with a way of every stage that reruns the rest of what its own saves."""
    stages = []
    for stage in chain.stages:
        rest = stage.saved_bytes - saved_bytes
        way = stowage.SaveOption(
            name=" ".join(*names.values()),
            saved_bytes=saved_bytes,
            backward_seconds=1.01 * stage.backward_seconds,
            backward_overhead_bytes=stage.backward_overhead_bytes + rest,
            save_overhead_bytes=stage.forward_overhead_bytes + rest,
            **names,
        )
        stages.append(replace(stage, save_options=(way,)))
    return replace(chain, stages=tuple(stages))


def part_chain(chain: Chain, way: int) -> Chain:
    """The chain with one of its ways alone, and with times of which that way is worth its while."""
    stages = [
        replace(
            stage,
            forward_seconds=1.0,
            replay_seconds=None,
            backward_seconds=2.0,
            save_options=tuple(
                replace(option, backward_seconds=2.01)
                for option in stage.save_options[way : way + 1]
            ),
        )
        for stage in chain.stages
    ]
    return replace(chain, stages=tuple(stages))

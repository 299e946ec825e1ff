"""The profile that all processes of a sharded job plan with: of each figure, the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from stowage.model import Chain
from stowage.model import Stage as ChainStage
from stowage.torch.distributed.ranks import Ranks
from stowage.torch.layers.stage import Stage
from stowage.torch.profiling.overheads import ChainMemory, Overheads
from stowage.torch.profiling.profile_file import content_of_way, way_of
from stowage.torch.profiling.profiler import Profile

_FIGURES = (
    *("forward_seconds", "backward_seconds", "replay_seconds", "output_bytes", "gradient_bytes"),
    *("saved_bytes", "forward_overhead_bytes", "backward_overhead_bytes", "no_recompute"),
)
# Of what is not needed, the least.
_NOT_NEEDED = frozenset({"unread", "after", "cast", "handed_on"})


def common_profile(profile: Profile, stages: Sequence[Stage], ranks: Ranks) -> Profile:
    """What all processes plan with, of the profile that each has measured.

    The ways to save a stage, which the stages get, and what they take are those of the first
    process: each finds ways of its own, with other operators.
    """
    if not ranks.are_several:
        return profile
    profiles = ranks.all_of(profile)
    ways = ranks.all_of([[content_of_way(way) for way in stage.ways] for stage in stages])[0]
    for stage, of_stage in zip(stages, ways, strict=True):
        stage.ways = tuple(map(way_of, of_stage))
    first = profiles[0]
    memory = ChainMemory(
        tuple(map(_overheads, *(each.memory.of_stages for each in profiles))),
        max(each.memory.shared for each in profiles),
        min(each.memory.passing for each in profiles),
        first.memory.options,
    )
    return Profile(
        memory.careful(_chain([each.chain for each in profiles])),
        profile.input,
        max(each.outside_bytes for each in profiles),
        max(each.outside_peak_bytes for each in profiles),
        _largest([each.plain_seconds for each in profiles]),
        _largest([each.plain_peak_bytes for each in profiles]),
        memory,
        tuple(dict.fromkeys(note for each in profiles for note in each.notes)),
    )


def _chain(chains: Sequence[Chain]) -> Chain:
    loss = [chain.loss for chain in chains if chain.loss is not None]
    return replace(
        chains[0],
        input_bytes=max(chain.input_bytes for chain in chains),
        input_gradient_bytes=_largest([chain.input_gradient_bytes for chain in chains]),
        stages=tuple(map(_stage, *(chain.stages for chain in chains))),
        loss=_stage(*loss) if loss else None,
    )


def _stage(*stages: ChainStage) -> ChainStage:
    """The first one, its ways included, with the largest figures."""
    first = stages[0]
    common = replace(
        first, **{name: _largest([getattr(stage, name) for stage in stages]) for name in _FIGURES}
    )
    longer = common.backward_seconds - first.backward_seconds
    options = tuple(
        replace(
            option,
            backward_seconds=option.backward_seconds + longer,
            saved_bytes=max(option.saved_bytes, common.output_bytes),
        )
        for option in first.save_options
    )
    return replace(common, save_options=options)


def _overheads(*of_processes: Overheads) -> Overheads:
    found: dict[str, int] = {}
    for field in fields(Overheads):
        sizes = [getattr(each, field.name) for each in of_processes]
        found[field.name] = min(sizes) if field.name in _NOT_NEEDED else max(sizes)
    return Overheads(**found)


def _largest(values: Sequence[Any]) -> Any:
    """None where one of them is: a replay is not shorter, or plain training ran out of memory."""
    return None if any(value is None for value in values) else max(values)

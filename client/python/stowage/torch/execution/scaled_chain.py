"""A profile's chain for other sizes of its input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from stowage.model import Chain, SaveOption, Stage
from stowage.torch.execution.executor import Observed


def scaled(chain: Chain, sizes: Sequence[Observed], ratio: float) -> Chain:
    """The chain for other sizes: bytes as observed, the rest of a stage in proportion to them.

    What is outside of the stages grows by `ratio`, the input's.
    """
    stages = []
    for stage, size in zip(chain.stages, sizes, strict=True):
        saved = stage.save_options[size.option - 1] if size.option else stage
        grows = size.saved / saved.saved_bytes if saved.saved_bytes else ratio
        gradient = size.output / stage.output_bytes if stage.output_bytes else ratio
        grown = replace(
            _grown(stage, grows),
            output_bytes=size.output,
            saved_bytes=max(
                int(stage.saved_bytes * grows) if size.option else size.saved, size.output
            ),
            gradient_bytes=_times(stage.gradient_bytes, gradient),
        )
        options = tuple(_grown_option(option, grown, grows) for option in stage.save_options)
        stages.append(replace(grown, save_options=options))
    loss = chain.loss
    return replace(
        chain,
        input_bytes=int(chain.input_bytes * ratio),
        input_gradient_bytes=_times(chain.input_gradient_bytes, ratio),
        stages=tuple(stages),
        loss=(
            None
            if loss is None
            else replace(_grown(loss, ratio), saved_bytes=int(loss.saved_bytes * ratio))
        ),
    )


def _times(size: int | None, factor: float) -> int | None:
    return None if size is None else int(size * factor)


def _grown(stage: Stage, factor: float) -> Stage:
    return replace(
        stage,
        forward_seconds=stage.forward_seconds * factor,
        backward_seconds=stage.backward_seconds * factor,
        forward_overhead_bytes=int(stage.forward_overhead_bytes * factor),
        backward_overhead_bytes=int(stage.backward_overhead_bytes * factor),
        replay_seconds=stage.replay_seconds and stage.replay_seconds * factor,
        save_overhead_bytes=None,
    )


def _grown_option(option: SaveOption, stage: Stage, factor: float) -> SaveOption:
    """Within what a stage of a chain may have."""
    saved = min(max(int(option.saved_bytes * factor), stage.output_bytes), stage.saved_bytes)
    least = stage.output_bytes + stage.forward_overhead_bytes
    return replace(
        option,
        saved_bytes=saved,
        backward_seconds=option.backward_seconds * factor,
        backward_overhead_bytes=int(option.backward_overhead_bytes * factor),
        save_overhead_bytes=max(int((option.save_overhead_bytes or 0) * factor), least - saved),
    )


def between(low: Chain, high: Chain, part: float) -> Chain:
    """The chain of sizes that are at `part` of the way from those of `low` to those of `high`.

    Linear: too large where what is between grows faster than in proportion, as in attention.
    """
    return replace(
        high,
        input_bytes=_between(low.input_bytes, high.input_bytes, part),
        input_gradient_bytes=_between(low.input_gradient_bytes, high.input_gradient_bytes, part),
        stages=tuple(
            _stage_between(one, other, part)
            for one, other in zip(low.stages, high.stages, strict=True)
        ),
        loss=(
            None
            if low.loss is None or high.loss is None
            else _stage_between(low.loss, high.loss, part)
        ),
    )


def _stage_between(low: Any, high: Any, part: float) -> Any:
    """Of two stages, or two save options."""
    found: dict[str, Any] = {}
    for field in fields(high):
        one, other = getattr(low, field.name), getattr(high, field.name)
        if field.name == "save_options":
            found[field.name] = tuple(
                _stage_between(a, b, part) for a, b in zip(one, other, strict=True)
            )
        elif field.name.endswith("_bytes"):
            found[field.name] = _between(one, other, part)
        elif field.name.endswith("_seconds"):
            known = one is not None and other is not None
            found[field.name] = (1 - part) * one + part * other if known else None
    return replace(high, **found)


def _between(low: Any, high: Any, part: float) -> Any:
    """Of two sizes in bytes, rounded up; None where one is not known."""
    if low is None or high is None:
        return None
    return math.ceil((1 - part) * low + part * high)

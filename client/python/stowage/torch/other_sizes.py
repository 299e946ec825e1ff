"""Programs for inputs of other sizes than the sample that `fit` has seen.

The first step of a new size runs a program that is safe: the fitted one where nothing is larger,
else the one that takes the least memory. It measures what the layers leave; the chain is scaled to
that, and a schedule for it is found on another thread. Later steps of the size run that one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from stowage.errors import CancelledError, StowageError
from stowage.model import Chain, SaveOption, Schedule, Stage
from stowage.torch.executor import Observed
from stowage.torch.program import Program
from stowage.torch.structure import tensors_of

_log = logging.getLogger("stowage")

# The sizes and types of the tensors that the first layer is called with.
Signature = tuple[tuple[tuple[int, ...], Any], ...]


def signature_of(tensors: Sequence[Tensor]) -> Signature:
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)


class OtherSizes:
    """Chooses the program of each pass by the sizes of its input. One thread at a time.

    Args:
        fitted: Of the sample.
        program: That `fit` has found for it.
        chain: That it has measured.
        outside_bytes: As in `Profile`.
        least: Finds the schedule that takes the least memory.
        find: Finds a schedule for a chain, with so many bytes held outside of it; None: the
            memory is not enough for any.
    """

    def __init__(
        self,
        fitted: Signature,
        program: Program,
        chain: Chain,
        outside_bytes: int,
        least: Callable[[], Schedule | None],
        find: Callable[[Chain, int], Schedule | None],
    ) -> None:
        self._fitted = fitted
        self._program = program
        self._chain = chain
        self._outside_bytes = outside_bytes
        self._find_least = least
        self._find = find
        self._least: Program | None = None
        self._found: dict[Signature, Program] = {}  # written by the threads that search
        self._searches: dict[Signature, threading.Thread] = {}

    def program_for(
        self, args: Any, kwargs: Any
    ) -> tuple[Program, Callable[[Sequence[Observed]], None] | None]:
        """The program for a first layer called so, and whom to tell what it has measured."""
        signature = signature_of(tensors_of((args, kwargs)))
        if signature == self._fitted:
            return self._program, None
        found = self._found.get(signature)
        if found is not None:
            return found, None
        safe = self._program if _within(signature, self._fitted) else self._safest()
        if signature in self._searches:
            return safe, None
        return safe.observing(), lambda sizes: self._search(signature, sizes)

    def wait(self) -> None:
        """Until every search that has begun is over."""
        for search in list(self._searches.values()):
            search.join()

    def _safest(self) -> Program:
        if self._least is None:
            schedule = self._find_least()
            length = len(self._chain.stages)
            self._least = self._program if schedule is None else Program.of(schedule, length)
        return self._least

    def _search(self, signature: Signature, sizes: Sequence[Observed]) -> None:
        if signature in self._searches:
            return
        ratio = _elements(signature) / max(1, _elements(self._fitted))
        chain = scaled(self._chain, list(sizes), ratio)
        outside = int(self._outside_bytes * ratio)

        def search() -> None:
            with contextlib.suppress(CancelledError):  # Python exits
                self._found[signature] = self._best(signature, chain, outside)

        thread = threading.Thread(target=search, name="stowage: other sizes", daemon=True)
        self._searches[signature] = thread
        thread.start()

    def _best(self, signature: Signature, chain: Chain, outside: int) -> Program:
        try:
            schedule = self._find(chain, outside)
        except CancelledError:
            raise
        except StowageError as error:
            _log.warning("no schedule for inputs of %s: %s", signature, error)
            schedule = None
        return self._safest() if schedule is None else Program.of(schedule, len(chain.stages))


def _elements(signature: Signature) -> int:
    total = 0
    for shape, _ in signature:
        count = 1
        for length in shape:
            count *= length
        total += count
    return total


def _within(one: Signature, other: Signature) -> bool:
    """Whether no tensor of `one` is larger than that of `other`."""
    return len(one) == len(other) and all(
        len(a) == len(b) and kind == other_kind and all(x <= y for x, y in zip(a, b, strict=True))
        for (a, kind), (b, other_kind) in zip(one, other, strict=True)
    )


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
            gradient_bytes=(
                None if stage.gradient_bytes is None else int(stage.gradient_bytes * gradient)
            ),
        )
        options = tuple(_grown_option(option, grown, grows) for option in stage.save_options)
        stages.append(replace(grown, save_options=options))
    loss = chain.loss
    return replace(
        chain,
        input_bytes=int(chain.input_bytes * ratio),
        input_gradient_bytes=(
            None if chain.input_gradient_bytes is None else int(chain.input_gradient_bytes * ratio)
        ),
        stages=tuple(stages),
        loss=(
            None
            if loss is None
            else replace(_grown(loss, ratio), saved_bytes=int(loss.saved_bytes * ratio))
        ),
    )


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

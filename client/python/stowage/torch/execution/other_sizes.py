"""Programs for inputs of other sizes than the sample that `fit` has seen.

The first step of a new size runs a program that is safe: that of the next larger size that is
known, else the one that takes the least memory. Where the size lies between two that were measured,
its chain is known; else that step measures what the layers leave. A schedule for the chain is found
on another thread, and later steps of the size run that one. A size just below a known one is run as
that is.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from stowage.answer import Answer
from stowage.errors import CancelledError, StowageError
from stowage.model import Chain, Schedule
from stowage.torch.execution.executor import Observed
from stowage.torch.execution.program import Program
from stowage.torch.execution.scaled_chain import between, scaled
from stowage.torch.layers.structure import tensors_of

_log = logging.getLogger("stowage")

# The sizes and types of the tensors that the first layer is called with.
Signature = tuple[tuple[tuple[int, ...], Any], ...]

_KEPT = 16  # sizes that have plans, and that were measured, beside the sample's
_NEAR = 1.05  # a size with so many times the elements may stand for a smaller one


def signature_of(tensors: Sequence[Tensor]) -> Signature:
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a size."""

    chain: Chain
    outside_bytes: int  # as in `Profile`


@dataclass(frozen=True, slots=True)
class SizePlan:
    """The plan for one size."""

    program: Program
    is_measured: bool  # else its chain is between two that were
    seconds: float | None = None  # as predicted of the chain, without what is outside
    peak_bytes: int | None = None


class OtherSizes:
    """Chooses the program of each pass by the sizes of its input. One thread at a time.

    Args:
        fitted: Of the sample.
        program: That `fit` has found for it.
        chain: That it has measured.
        outside_bytes: As in `Profile`.
        least: Finds the schedule that takes the least memory.
        find: Finds an answer for a chain, with so many bytes held outside of it; without a
            schedule where the memory is not enough for any.
    """

    def __init__(
        self,
        fitted: Signature,
        program: Program,
        chain: Chain,
        outside_bytes: int,
        least: Callable[[], Schedule | None],
        find: Callable[[Chain, int], Answer],
    ) -> None:
        self._fitted = fitted
        self._program = program
        self._find_least = least
        self._find = find
        self._least: Program | None = None
        # The latest of those that were used last.
        self._measured = OrderedDict({fitted: _Measured(chain, outside_bytes)})
        self._found: OrderedDict[Signature, SizePlan] = OrderedDict()
        self._lock = threading.Lock()  # of `_found`, which the thread that searches writes, too
        self._searches: dict[Signature, tuple[_Measured, bool]] = {}
        self._search: threading.Thread | None = None

    def program_for(
        self, args: Any, kwargs: Any
    ) -> tuple[Program, Callable[[Sequence[Observed]], None] | None]:
        """The program for a first layer called so, and whom to tell what it has measured."""
        signature = signature_of(tensors_of((args, kwargs)))
        if signature == self._fitted:
            return self._program, None
        plan, larger = self._known(signature)
        if plan is not None:
            return plan, None
        safe = larger or self._safest()
        if signature in self._searches:
            return safe, None
        measured = self._measured.get(signature)
        if measured is not None:
            self._ask(signature, measured, is_measured=True)
            return safe, None
        part = self._between(signature)
        if part is not None:
            self._ask(signature, part, is_measured=False)
            return safe, None
        if larger is None:
            _log.info("a step of %s takes the least memory, which is measured", _text(signature))
        return safe.observing(), lambda sizes: self._observed(signature, sizes)

    def plans(self) -> list[tuple[str, SizePlan]]:
        """The sizes of the chain's input, as "4x512x256", and the plans that are kept."""
        with self._lock:
            return [(_text(signature[:1]), plan) for signature, plan in self._found.items()]

    def wait(self) -> None:
        """Until every search that has begun is over."""
        while (search := self._search) is not None:
            search.join()

    def _known(self, signature: Signature) -> tuple[Program | None, Program | None]:
        """The program of the size, or of one just above; and that of the next larger one."""
        with self._lock:
            found = self._found.get(signature)
            if found is not None:
                self._found.move_to_end(signature)
                return found.program, None
            programs = {self._fitted: self._program}
            programs.update((each, plan.program) for each, plan in self._found.items())
            larger = [each for each in programs if _within(signature, each)]
            if not larger:
                return None, None
            least = min(larger, key=_elements)
            program = programs[least]
            if _elements(least) > _NEAR * _elements(signature):
                return None, program
            if least in self._found:
                self._found.move_to_end(least)
            return program, program

    def _safest(self) -> Program:
        if self._least is None:
            schedule = self._find_least()
            length = self._program.length
            self._least = self._program if schedule is None else Program.of(schedule, length)
        return self._least

    def _observed(self, signature: Signature, sizes: Sequence[Observed]) -> None:
        if signature in self._measured:
            return
        ratio = _elements(signature) / max(1, _elements(self._fitted))
        of_sample = self._measured[self._fitted]
        chain = scaled(of_sample.chain, list(sizes), ratio)
        measured = _Measured(chain, int(of_sample.outside_bytes * ratio))
        self._measured[signature] = measured
        if len(self._measured) > _KEPT + 1:
            oldest = next(each for each in self._measured if each != self._fitted)
            del self._measured[oldest]
        self._ask(signature, measured, is_measured=True)

    def _between(self, signature: Signature) -> _Measured | None:
        """The chain between the two nearest sizes that were measured, one below and one above."""
        best: tuple[int, Signature, Signature, float] | None = None
        for low in self._measured:
            for high in self._measured:
                part = _part_between(low, signature, high)
                if part is not None:
                    span = _elements(high) - _elements(low)
                    if best is None or span < best[0]:
                        best = span, low, high, part
        if best is None:
            return None
        _, low, high, part = best
        one, other = self._measured[low], self._measured[high]
        outside = (1 - part) * one.outside_bytes + part * other.outside_bytes
        return _Measured(between(one.chain, other.chain, part), int(outside) + 1)

    def _ask(self, signature: Signature, measured: _Measured, *, is_measured: bool) -> None:
        with self._lock:
            self._searches[signature] = measured, is_measured
            if self._search is None or not self._search.is_alive():
                self._search = threading.Thread(
                    target=self._work, name="stowage: other sizes", daemon=True
                )
                self._search.start()

    def _work(self) -> None:
        signature: Signature | None = None
        try:
            while (signature := self._next(signature)) is not None:
                measured, is_measured = self._searches[signature]
                plan = self._best(signature, measured, is_measured=is_measured)
                with self._lock:
                    self._found[signature] = plan
                    if len(self._found) > _KEPT:
                        self._found.popitem(last=False)
        except CancelledError:  # Python exits
            pass
        finally:
            if signature is not None:  # it has failed
                self._search = None

    def _next(self, done: Signature | None) -> Signature | None:
        """What to search for after `done`; None: nothing, and this search is over."""
        with self._lock:
            if done is not None:
                del self._searches[done]
            if not self._searches:
                self._search = None
                return None
            return next(iter(self._searches))

    def _best(self, signature: Signature, measured: _Measured, *, is_measured: bool) -> SizePlan:
        try:
            answer = self._find(measured.chain, measured.outside_bytes)
        except CancelledError:
            raise
        except StowageError as error:
            _log.warning("no schedule for inputs of %s: %s", _text(signature), error)
            return SizePlan(self._safest(), is_measured)
        if answer.schedule is None or answer.prediction is None:
            return SizePlan(self._safest(), is_measured)
        return SizePlan(
            Program.of(answer.schedule, len(measured.chain.stages)),
            is_measured,
            answer.prediction.makespan_seconds,
            answer.prediction.peak_memory_bytes + measured.outside_bytes,
        )


def _text(signature: Signature) -> str:
    """For people: the sizes of the first layer's arguments."""
    return ", ".join("x".join(map(str, shape)) or "1" for shape, _ in signature)


def _part_between(low: Signature, signature: Signature, high: Signature) -> float | None:
    """How far it is from `low` to `high`; None: it is not between, with all that varies alike."""
    if low == high or not (_within(low, signature) and _within(signature, high)):
        return None
    parts = {
        (size - begin) / (end - begin)
        for (shape, _), (begins, _), (ends, _) in zip(signature, low, high, strict=True)
        for size, begin, end in zip(shape, begins, ends, strict=True)
        if begin != end
    }
    if len(parts) != 1:
        return None
    return parts.pop()


def _elements(signature: Signature) -> int:
    return sum(math.prod(shape) for shape, _ in signature)


def _within(one: Signature, other: Signature) -> bool:
    """Whether no tensor of `one` is larger than that of `other`."""
    return len(one) == len(other) and all(
        len(a) == len(b) and kind == other_kind and all(x <= y for x, y in zip(a, b, strict=True))
        for (a, kind), (b, other_kind) in zip(one, other, strict=True)
    )

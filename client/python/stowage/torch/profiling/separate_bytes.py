"""Measures what layers take that are replayed apart, and what the model holds between them.

The model runs once with a stand-in for each layer, which keeps the layer's arguments, as
`checkpoint` does, and nothing else. So what is held from one layer to the next, and on the way back
the gradients that wait for earlier layers, are what they are if each layer is replayed. A stage of
the chain is then a layer and what follows it: its output is what is held after it in any case.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from stowage.errors import NotAChainError
from stowage.model import Chain, SaveOption
from stowage.model import Stage as ChainStage
from stowage.torch.layers.structure import put_tensors
from stowage.torch.measuring.meter import Span
from stowage.torch.measuring.walk import Arguments, distinct
from stowage.torch.profiling.gathers import made_gradients
from stowage.torch.profiling.overheads import Overheads
from stowage.torch.profiling.stage_bytes import Bytes
from stowage.torch.tensors.storages import reference_to, storage_keys

_LOSS = "loss backward"


@dataclass(slots=True)
class _Around:
    """What is held around a layer, in bytes above what was in use at the start."""

    begin: int  # when it is called
    before: int  # of that, what is there until its backward
    after: int  # the same when the next one is called, or the model returns
    peak: int  # between the two, without the layer itself
    holds_output: bool  # at the end
    gradients: int = 0  # that wait when its backward begins
    backward_peak: int = 0  # between its backward and that of the layer before

    @property
    def held(self) -> int:
        return self.after - self.before


class SeparateBytes(Bytes):
    """As `Bytes`, of layers that are replayed apart."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # By stage: what it returns and is not among its arguments.
        self._made_by: dict[int, list[Any]] = {}
        self._made_bytes: dict[int, int] = {}  # its bytes
        self._holds_output: dict[int, bool] = {}
        # By stage: the span that ends where its backward begins, and bytes of its gradients.
        self._ends: dict[int, tuple[str, int]] = {}
        self._around: dict[int, _Around] = {}
        self.anchor = torch.empty(0, requires_grad=True)  # so that every stand-in has a backward

    def measure(self) -> None:
        with made_gradients(self._model.parameters()), self._meter as meter:
            self.between.enter_context(meter.span("begin"))
            output = self.walk()
            loss = self.work.loss(output)
            del output
            self.between.close()
            self._use(self.leaves_after(loss))
            self._open(_LOSS)
            self.backward(loss)
            self.between.close()
            del loss
        self._look_around()

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        self.between.close()
        if number > 1:
            outputs = self._made_by[number - 1]
            self._holds_output[number - 1] = any(not output.expired() for output in outputs)
        return super().measure_stage(number, arguments)

    def hold(self, number: int, arguments: Arguments) -> None:
        """Nothing: a stand-in does."""

    def for_the_model(self, number: int, arguments: Arguments, outputs: Sequence[Tensor]) -> Any:
        held = {id(tensor): tensor for tensor in arguments.tensors}
        inputs = [tensor for tensor in held.values() if tensor.requires_grad]
        with torch.enable_grad():
            fresh = _StandIn.apply(
                *(self, number, list(outputs), arguments.need_gradients, list(held.values())),
                *(self.anchor, *inputs),
            )
        passed = storage_keys(arguments.tensors)
        made = [storage for storage in distinct(fresh) if int(storage._cdata) not in passed]
        self._made_by[number] = [reference_to(storage) for storage in made]
        self._made_bytes[number] = sum(storage.nbytes() for storage in made)
        result = put_tensors(arguments.output, fresh)
        del fresh, made
        self._open(f"after {number}")
        return result

    def _open(self, name: str) -> None:
        self._last_span = name
        self.between.enter_context(self._meter.span(name))

    def backward_begins(self, number: int, gradients: Sequence[Tensor | None]) -> None:
        """Told by a stand-in: it has what the layer's backward would get."""
        self.between.close()
        if self._ends and number > min(self._ends):
            later = self.stages[min(self._ends) - 1].name
            raise NotAChainError(
                f"the backward of {later} runs before that of {self.stages[number - 1].name}, "
                "though its forward came first: pass layers= of which that is not so"
            )
        given = [gradient for gradient in gradients if gradient is not None]
        self._ends[number] = self._last_span, sum(s.nbytes() for s in distinct(given))

    def backward_ends(self, number: int) -> None:
        self._open(f"backward after {number}")

    def _look_around(self) -> None:
        spans, last = self._meter.spans, len(self.stages)
        base = spans["begin"].before
        self._holds_output[last] = True
        between = [spans[f"after {number}"] for number in range(1, last + 1)]
        levels = [spans["first"].before, *(span.after for span in between[:-1])]
        levels.append(between[-1].before)
        # What is there at one layer and no more at a later one, the model has let go of.
        lasting = list(itertools.accumulate(reversed(levels), min))[::-1]
        for number, span in enumerate(between, 1):
            around = _Around(
                levels[number - 1] - base,
                lasting[number - 1] - base,
                lasting[number] - base,
                (span.peak if number < last else span.before) - base,
                self._holds_output[number],
            )
            if number in self._ends:
                name, size = self._ends[number]
                around.gradients = max(size, spans[name].after - base - around.before)
                around.backward_peak = spans[f"backward after {number}"].peak - base
            self._around[number] = around

    def chain(self, name: str) -> Chain:
        """Of the layers alone."""
        spans, around = self._meter.spans, self._around
        first = around[1]
        self.outside_bytes = max(0, first.before)
        before = spans["begin"].peak - spans["begin"].before
        self.outside_peak_bytes = max(0, max(first.backward_peak, before) - first.before)
        self.add_what_is_cast(spans)
        stages = [self._stage(number, spans) for number in range(1, len(around) + 1)]
        return Chain(
            name=name,
            input_bytes=0,
            input_gradient_bytes=int(self._kept[1].get("gradient", 0)),
            stages=tuple(
                replace(stage, gradient_bytes=around[number].gradients)
                for number, stage in enumerate(stages, 1)
            ),
            loss=self._loss_stage(spans),
        )

    def _loss_stage(self, spans: dict[str, Span]) -> ChainStage:
        last = len(self.stages)
        forward, backward = spans[f"after {last}"], spans[_LOSS]
        saved = max(0, forward.after - forward.before)
        waiting = self._around[last].gradients
        return ChainStage(
            name="",
            saved_bytes=saved,
            forward_overhead_bytes=max(0, forward.peak - forward.before - saved),
            backward_overhead_bytes=max(0, backward.peak - backward.before - waiting),
        )

    def with_what_follows(self, chain: Chain) -> Chain:
        """The chain, each stage with what the model does until the next one. Once."""
        joined = [
            self._joined(number, stage, chain) for number, stage in enumerate(chain.stages, 1)
        ]
        self.overheads = [overheads for _, overheads in joined]
        return replace(chain, stages=tuple(stage for stage, _ in joined))

    def _joined(self, number: int, stage: ChainStage, chain: Chain) -> tuple[ChainStage, Overheads]:
        around, own = self._around[number], self.overheads[number - 1]
        held = around.held
        # What a layer that is kept adds to what is held in any case.
        output = self._made_bytes[number]
        twice = output if around.holds_output else min(output, own.unread)
        saved = held + max(0, stage.saved_bytes - twice)
        there = stage.saved_bytes - own.unread  # when its backward runs
        missing = max(0, there - saved)
        # The gradients of its input are those that wait for the stage before, among others.
        before = chain.stages[number - 2].gradient_bytes if number > 1 else None
        waiting = chain.input_gradient_bytes or 0 if before is None else before
        made = int(self._kept[number].get("gradient", 0))
        in_all = around.gradients + waiting
        following = max(0, around.peak - around.after)
        passing = around.begin - around.before  # in the forward alone
        behind = around.backward_peak - around.before - there - in_all
        overheads = Overheads(
            checkpoint=max(0, passing + own.checkpoint + stage.output_bytes - held, following),
            save=max(0, passing + own.save + stage.saved_bytes - saved, following),
            backward=max(0, own.backward + made - waiting, behind) + missing,
            unread=max(0, saved - there),
            replay=own.replay + missing,
            after=max(0, held - output) if around.holds_output else held,
            cast=own.cast,
        )

        def with_rest(option: SaveOption) -> SaveOption:
            least = held + max(0, option.saved_bytes - twice)
            more = passing + option.saved_bytes + (option.save_overhead_bytes or 0) - least
            backward = option.backward_overhead_bytes + made - waiting
            return replace(
                option,
                saved_bytes=min(least, saved),
                backward_overhead_bytes=max(0, backward, behind),
                save_overhead_bytes=max(0, more, following),
            )

        options = tuple(map(with_rest, stage.save_options))
        joined = replace(stage, output_bytes=held, saved_bytes=saved, save_options=options)
        return joined, overheads


class _StandIn(torch.autograd.Function):
    """A layer that keeps its arguments, and whose backward makes gradients of nothing."""

    @staticmethod
    def forward(
        ctx: Any,
        measured: SeparateBytes,
        number: int,
        outputs: list[Tensor],
        need_gradients: Sequence[bool],
        held: list[Tensor],
        anchor: Tensor,
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.measured, ctx.number = measured, number
        ctx.save_for_backward(*held)
        ctx.sizes = [(tensor.shape, tensor.dtype, tensor.device) for tensor in inputs]
        # No views, which the model may not change in place where there are several.
        fresh = [output.data for output in outputs]
        without = [t for t, needs in zip(fresh, need_gradients, strict=True) if not needs]
        ctx.mark_non_differentiable(*without)
        return tuple(fresh)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        ctx.measured.backward_begins(ctx.number, gradients)
        made = [
            torch.zeros(shape, dtype=dtype, device=device) if needed else None
            for (shape, dtype, device), needed in zip(
                ctx.sizes, ctx.needs_input_grad[6:], strict=True
            )
        ]
        ctx.measured.backward_ends(ctx.number)
        return None, None, None, None, None, None, *made

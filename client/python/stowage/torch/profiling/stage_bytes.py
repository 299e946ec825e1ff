"""Measures what the layers of a model take of memory, and whether they can run again.

What autograd saves is not counted tensor by tensor, but by what the allocator hands out.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.model import Chain
from stowage.model import Stage as ChainStage
from stowage.torch.distributed.sharding import part_of
from stowage.torch.execution.other_sizes import Signature, signature_of
from stowage.torch.layers.stage import Call
from stowage.torch.layers.structure import tensors_of
from stowage.torch.measuring.meter import Span
from stowage.torch.measuring.walk import Arguments, Walk, distinct
from stowage.torch.profiling.gathers import Gathers, made_gradients
from stowage.torch.profiling.overheads import Overheads
from stowage.torch.tensors.graph_leaves import leaves_of
from stowage.torch.tensors.replay import same_content
from stowage.torch.tensors.saved_tensors import Note, OtherRunError
from stowage.torch.tensors.storages import reference_to, storage_keys, storage_of


class Bytes(Walk):
    """What the stages take of memory, and whether they can run again."""

    def __init__(self, model: nn.Module, *walk: Any) -> None:
        super().__init__(*walk)
        self._model = model
        self.notes: list[str] = []
        self.input: Signature = ()
        self._names = {id(p): name for name, p in model.named_parameters()}
        self.gathers = Gathers(model, self.stages)
        self._meter = self.work.meter()
        self._kept: dict[int, dict[str, Any]] = {}
        self._input: list[Tensor] = []
        self._loss_gradient = 0
        self._returns_last = True  # whether the model returns the last layer's output
        self._used: list[list[Tensor]] = []  # parameters, by part of the model
        # The span from the model's begin to the first layer, and from the last one to the loss.
        self.between = contextlib.ExitStack()
        self._outputs: list[Any] = []  # references to those of all layers
        self._held: list[Any] = []  # from the last layer's return to the loss
        self._sides: list[Tensor] = []  # arguments beside the chain's, which layers may save
        self.outside_bytes = 0
        self.passing_bytes = 0  # of those, what only the model's forward holds
        self.outside_peak_bytes = 0
        self.overheads: list[Overheads] = []  # by stage
        # By stage: notes of what a replay saves; None: none ends early.
        self.replays: list[Sequence[Note] | None] = []

    def measure(self) -> None:
        with self._meter as meter:
            self.between.enter_context(meter.span("begin"))
            output = self.walk()
            loss = self.work.loss(output)
            # Callers may hold what the model returns until its backward is over.
            returned = storage_keys(tensors_of(output))
            self._returns_last = not returned.isdisjoint(storage_keys(self.last))
            del output
            self.between.close()
            self._held = []
            self._use(self.leaves_after(loss))
            with meter.span("loss backward"):
                self.backward(loss)
            self._loss_gradient = sum(self.arrived)
            self.last = []
            with self._meter.span("first backward"):
                pass
            del loss
            self._sides = []
            self._measure_what_is_before()

    def _measure_what_is_before(self) -> None:
        """The backward of what the model does before its layers, down to its parameters."""
        inputs = [tensor for tensor in self._input if tensor.requires_grad]
        with self.gathers.outside(), self._meter.span("outside backward"):
            if inputs and any(tensor.grad_fn is not None for tensor in inputs):
                torch.autograd.backward(inputs, [torch.ones_like(tensor) for tensor in inputs])
        self._input = []

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        facts: dict[str, Any] = {}
        self._kept[number] = facts
        self.gathers.begin(number)
        if number == 1:
            self.between.close()
            with self._meter.span("first"):
                pass
            self.input = signature_of(arguments.tensors)
            inputs = [arguments.tensors[slot] for slot in arguments.chain]
            facts["input"] = sum(storage.nbytes() for storage in distinct(inputs))
        self.hold(number, arguments)
        outputs, call = self._measure_runs(number, arguments, facts)
        facts["may_rerun"] = call is not None
        notes = None if call is None else self._measure_replay(number, call, arguments)
        if self.work.ranks.in_layers and self.work.ranks.any_of(notes is None):
            notes = None
        self.replays.append(notes)
        if number == len(self.stages):
            # What models hold until they have called all layers, and a step's graph holds, too.
            self._held = [*arguments.tensors, *map(storage_of, self._outputs)]
            self.between.enter_context(self._meter.span("head"))
        return outputs

    def for_the_model(self, number: int, arguments: Arguments, outputs: Sequence[Tensor]) -> Any:
        result = super().for_the_model(number, arguments, outputs)
        self._outputs += map(reference_to, distinct(self.last))
        return result

    def hold(self, number: int, arguments: Arguments) -> None:
        """Keeps of a stage's arguments what is there until all layers' backwards are over."""
        if number == 1:
            self._input = [arguments.tensors[slot] for slot in arguments.chain]
            self._use(leaves_of(self._input))
        self._sides += [
            tensor for slot, tensor in enumerate(arguments.tensors) if slot not in arguments.chain
        ]

    def _measure_runs(
        self, number: int, arguments: Arguments, facts: dict[str, Any]
    ) -> tuple[list[Tensor], Call | None]:
        """The layer's outputs of a run that keeps nothing, and its call, where a second run, which
        saves and has a backward, gives the same.
        """
        stage, device = arguments.stage, self.work.device
        of_others = _other_generators()
        snapshot = stage.replay.before(() if device.type == "cpu" else (device,), ())
        torch.clear_autocast_cache()
        with self._meter.span(f"forward {number}"):
            first, _ = arguments.run(gradients=True, saves=False, caches=True)
        torch.clear_autocast_cache()
        facts["is cast"] = arguments.context.enabled
        facts["output"] = sum(storage.nbytes() for storage in distinct(first))
        given = storage_keys(arguments.values)
        facts["handed on"] = sum(
            storage.nbytes() for storage in distinct(first) if storage._cdata in given
        )
        first = [output.detach() for output in first]
        notes = arguments.notes
        stage.replay.after(snapshot)
        draws_elsewhere = _other_generators() != of_others
        with stage.replay.again(snapshot), self._meter.span(f"save {number}"):
            outputs, leaves = arguments.run(gradients=True)
        is_same = _equal(first, [output.detach() for output in outputs]) and not draws_elsewhere
        if self.work.ranks.in_layers:
            is_same = not self.work.ranks.any_of(not is_same)
        roots = [output for output in outputs if output.requires_grad]
        del outputs
        if roots:
            self._measure_gradients(number, arguments, roots, leaves, facts)
        if is_same:
            return first, arguments.call(snapshot, notes)
        self.notes.append(
            f"{stage.name} gives another result when it runs again, so it runs once: "
            + (
                "it draws numbers from Python's or numpy's generator"
                if draws_elsewhere
                else "it reads or changes something beside its arguments, buffers and torch's "
                "random numbers, such as a cache"
            )
        )
        return first, None

    def _measure_replay(
        self, number: int, call: Call, arguments: Arguments
    ) -> Sequence[Note] | None:
        """The notes of replays that end early; None: none does."""
        inputs = [tensor.detach() for tensor in arguments.values]
        with self._meter.span(f"replay {number}"):
            try:
                held = arguments.stage.run_again(call, inputs, saves=True, stops=True)
            except OtherRunError:  # which a step would say
                return None
        del held
        return call.notes if arguments.stage.can_stop else None

    def _measure_gradients(
        self,
        number: int,
        arguments: Arguments,
        roots: list[Tensor],
        leaves: Sequence[Tensor],
        facts: dict[str, Any],
    ) -> None:
        """Of the outputs `roots`, of which this has the last references."""
        inputs = [*leaves, *arguments.stage.parameters()]
        self._check_leaves(arguments.stage.name, leaves_of(roots), inputs)
        gradients = [torch.ones_like(root) for root in roots]
        with made_gradients(inputs), self._meter.span(f"backward {number}"):
            # Gradients of parameters are added one by one, as in training.
            torch.autograd.backward(roots, gradients, inputs=inputs)
            roots.clear()
        of_input = [leaf.grad for leaf in leaves if leaf.grad is not None]
        facts["gradient"] = sum(storage.nbytes() for storage in distinct(of_input))

    def _check_leaves(self, name: str, found: list[Tensor], known: list[Tensor]) -> None:
        self._use(found)
        of_the_layer = {id(tensor) for tensor in known}
        for leaf in found:
            if id(leaf) not in of_the_layer:
                raise NotAChainError(
                    f"{name} uses {self._names.get(id(leaf), 'a tensor')}, which is neither among "
                    "its parameters nor its arguments, so its gradient would be lost: pass it as "
                    "an argument, or register it in the layer"
                )

    def _use(self, leaves: Sequence[Tensor]) -> None:
        self._used.append([leaf for leaf in leaves if isinstance(leaf, nn.Parameter)])

    def shared_bytes(self) -> int:
        """Of parameters that several parts use: autograd sums their gradient as it goes."""
        tensors = {id(tensor): tensor for part in self._used for tensor in part}
        counts = Counter(id(tensor) for part in self._used for tensor in part)
        return sum(part_of(tensors[key]).nbytes for key, count in counts.items() if count > 1)

    def chain(self, name: str) -> Chain:
        """Without times, and without the overheads of the stages."""
        spans = self._meter.spans
        self.outside_bytes = max(
            0, spans["first"].before - spans["begin"].before - self._kept[1]["input"]
        )
        kept = spans["first backward"].before - spans["begin"].before - self._kept[1]["input"]
        self.passing_bytes = max(0, self.outside_bytes - max(0, kept))
        self.add_what_is_cast(spans)
        outside = spans["outside backward"]
        before = spans["begin"].peak - spans["begin"].before - self.outside_bytes
        self.outside_peak_bytes = max(0, outside.peak - outside.before, before)
        if self.gathers.is_used:
            self._add_what_is_gathered()
        stages = [self._stage(number, spans) for number in range(1, len(self._kept) + 1)]
        # The backward of a stage makes the gradient of the value before it.
        gradients = [self._kept[number].get("gradient") for number in range(1, len(stages) + 1)]
        gradients.append(self._loss_gradient)
        return Chain(
            name=name,
            input_bytes=self._kept[1]["input"],
            input_gradient_bytes=gradients[0] or 0,
            stages=tuple(
                replace(stage, gradient_bytes=gradient)
                for stage, gradient in zip(stages, gradients[1:], strict=True)
            ),
            loss=self._loss_stage(spans),
        )

    def add_what_is_cast(self, spans: dict[str, Span]) -> None:
        """What autocast's cache holds from a layer's forward until the model's ends."""
        numbers = {self.stages[number - 1].modules[0]: number for number in self._kept}
        for number in numbers.values():  # of each layer once, however often it is called
            facts, span = self._kept[number], spans[f"forward {number}"]
            if facts["is cast"]:
                facts["cast"] = max(0, span.after - span.before - facts["output"])
        total = sum(facts.get("cast", 0) for facts in self._kept.values())
        self.outside_bytes += total
        self.passing_bytes += total

    def _add_what_is_gathered(self) -> None:
        gathers = self.gathers
        # What the layers' neighbours have gathered is sharded again once the loss's backward ends,
        # here and not in a step.
        self.passing_bytes = 0
        self.outside_bytes += gathers.staying - gathers.first + gathers.outside_gradients
        self.outside_peak_bytes += gathers.outside_gradients

    def _stage(self, number: int, spans: dict[str, Span]) -> ChainStage:
        facts = self._kept[number]
        forward = spans[f"forward {number}"]
        save = spans[f"save {number}"]
        backward = spans.get(f"backward {number}", Span(0, 0, 0))
        output = int(facts["output"])
        gradient = int(facts.get("gradient", 0))
        # An output in its input's memory is counted all the same: it may outlive the input.
        saved = max(save.after - save.before, output)
        save_overhead = max(0, save.peak - save.before - saved)
        unread, replay_overhead = 0, save_overhead
        if self.replays[number - 1] is not None:
            replay = spans[f"replay {number}"]
            if number < len(self.stages) or not self._returns_last:
                unread = min(output, max(0, saved - (replay.after - replay.before)))
            replay_overhead = max(0, replay.peak - replay.before - (saved - unread))
        overheads = Overheads(
            checkpoint=max(0, forward.peak - forward.before - output),
            save=save_overhead,
            backward=max(0, backward.peak - backward.before - gradient),
            unread=unread,
            replay=replay_overhead,
            cast=int(facts.get("cast", 0)),
            handed_on=int(facts["handed on"]),
        )
        self.overheads.append(self.gathers.added_to(number, overheads))
        return ChainStage(
            name=self.stages[number - 1].name,
            output_bytes=output,
            saved_bytes=saved,
            no_recompute=not facts["may_rerun"],
        )

    def _loss_stage(self, spans: dict[str, Span]) -> ChainStage:
        """What the model does after its layers, and the loss."""
        forward = spans["head"]
        backward = spans["loss backward"]
        saved = max(0, forward.after - forward.before)
        return ChainStage(
            name="",
            saved_bytes=saved,
            forward_overhead_bytes=max(0, forward.peak - forward.before - saved),
            backward_overhead_bytes=max(0, backward.peak - backward.before - self._loss_gradient),
        )


def _other_generators() -> tuple[Any, ...]:
    """The states of generators that are not torch's."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return (random.getstate(),)
    kind, keys, *rest = numpy.random.get_state()
    return random.getstate(), kind, keys.tobytes(), *rest


def _equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether all bits are equal; not-a-number equals itself."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and same_content(a, b) for a, b in zip(one, other, strict=True)
    )

"""Runs one step of a program inside torch's own autograd.

Each layer is an `autograd.Function` whose inputs are its arguments and its parameters, so that
gradients leave through the caller's own engine, in its order, once: hooks, DDP, accumulation and
clipping see what they always see. Between the layers' calls a `Pass` holds the chain's values and a
pointer into the program: the first forward of a layer runs the program up to it, its backward up to
``BACKWARD l``, with recomputations and copies on the way.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import GradientEdge

from stowage.torch.discover import refuse_caches
from stowage.torch.program import Program, Step
from stowage.torch.replay import Autocast
from stowage.torch.stage import Call, Stage, can_need, input_slots
from stowage.torch.structure import put_tensors, take_tensors, tensors_of
from stowage.torch.transfers import Transfers
from stowage.torch.values import Graph, SavedTensors, Value, begin_of_graph, storage_keys


class StageFunction(torch.autograd.Function):
    """One layer as autograd sees it. Inputs: values of the chain, side inputs, parameters."""

    @staticmethod
    def forward(ctx: Any, run: Pass, call: Call, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.run = run
        ctx.call = call
        ctx.set_materialize_grads(False)
        outputs = [tensor.detach() for tensor in run.forward(call)]
        # Side inputs go on to the next stage, so that their gradients are summed in the order of
        # plain training: what later stages give comes first.
        outputs += [cast(Tensor, call.tensors[slot]).detach() for slot in call.sides]
        without = [
            output for output, needs in zip(outputs, call.need_gradients, strict=False) if not needs
        ]
        if without:
            ctx.mark_non_differentiable(*without)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.run.backward(ctx.call, gradients)


# Side inputs that need a gradient: by the id of the caller's tensor, that tensor and what the next
# stage takes in its place.
Relays = dict[int, tuple[Tensor, Tensor]]


class Observed(NamedTuple):
    """Bytes of a stage's output, and of all that its forward left for its backward."""

    output: int
    saved: int


class Pass:
    """One forward and backward of the chain. Holds the values; dies with the caller's graph."""

    def __init__(
        self,
        stages: Sequence[Stage],
        program: Program,
        transfers: Transfers,
        observed: Callable[[Sequence[Observed]], None] | None = None,
    ) -> None:
        self._stages = stages
        self._program = program
        self._transfers = transfers
        self._next = 0  # the operation to run next
        self._values: list[Value | None] = [None] * (program.length + 1)
        self._calls: list[Call | None] = [None] * (program.length + 1)
        # The last output handed to the caller: by id, its index.
        self._returned: dict[int, int] = {}
        self._gradients: Sequence[Tensor | None] = ()
        self._current = 0  # the stage whose backward runs; 0: none
        self._results: list[Tensor | None] = []
        self._lowest = 0  # the stage whose backward is the last one here; 0: none so far
        self._over = False
        self._observed = observed  # told of all stages' values, where the program observes
        self._sizes = [Observed(0, 0)] * program.length
        self.called = 0  # the last stage whose forward was called

    def call(
        self, stage: int, args: Any, kwargs: Any, chain_slots: Sequence[int], relays: Relays
    ) -> Any:
        """The layer's output for these arguments, in the caller's graph.

        `chain_slots` says which tensors of the first layer's arguments are the chain's input.
        `relays` is the caller's, who keeps it from stage to stage: it leads to this pass by way of
        autograd's graph.
        """
        refuse_caches(self._stages[stage - 1].name, args, kwargs)
        tensors: list[Any] = []
        template = take_tensors((args, kwargs), tensors)
        chain = self._chain_inputs(stage, tensors, chain_slots)
        self.called = stage
        if not any(needs for _, _, needs in chain):
            self._lowest = 0
        of_chain = {slot for slot, _, _ in chain}
        sides, repeats = _sides(tensors, of_chain)
        given = [tensors[slot] for slot in sides]
        for slot in sides:
            tensors[slot] = relays.get(id(tensors[slot]), (None, tensors[slot]))[1]
        for slot, first in repeats:
            tensors[slot] = tensors[first]
        if self._program.plain[stage]:
            if sides:
                args, kwargs = put_tensors(template, tensors)
            returned = self._call_plain(stage, args, kwargs)
        else:
            call = self._described(stage, template, tensors, chain, sides, repeats)
            returned, passed_on = self._call_function(stage, tensors, call)
            relays.update(
                (id(tensor), (tensor, relay))
                for tensor, relay in zip(given, passed_on, strict=True)
            )
        if stage == self._program.length:
            relays.clear()
            self._run_to(self._program.before_loss)
        return returned

    def _call_function(
        self, stage: int, tensors: list[Any], call: Call
    ) -> tuple[Any, Sequence[Tensor]]:
        """Under the schedule: the output, and what stands for the side inputs from here on."""
        self._calls[stage] = call
        if self._lowest == 0:
            self._lowest = stage
        chain = [tensors[slot] for slot, _, _ in _distinct(call.chain)]
        if stage == 1:
            self._values[0] = Value.of([tensor.detach() for tensor in chain])
        sides = [tensors[slot] for slot in call.sides]
        outputs = StageFunction.apply(self, call, *chain, *sides, *call.parameters)
        end = len(outputs) - len(sides)
        outputs, passed_on = outputs[:end], outputs[end:]
        self._returned = {id(output): i for i, output in enumerate(outputs)}
        if stage == self._program.length and not any(o.requires_grad for o in outputs):
            self._finish()
        return put_tensors(call.output, outputs), passed_on

    def _call_plain(self, stage: int, args: Any, kwargs: Any) -> Any:
        """As without Stowage; keeps the output where the next stage is recomputed from it."""
        self._run_to(self._program.first_forward[stage] - 1)
        self._next += 1
        returned = self._stages[stage - 1].run(args, kwargs)
        outputs = tensors_of(returned)
        self._returned = {id(output): i for i, output in enumerate(outputs)}
        if stage < self._program.length and not self._program.plain[stage + 1]:
            self._values[stage] = Value.of([output.detach() for output in outputs])
        return returned

    def _chain_inputs(
        self, stage: int, tensors: list[Any], chain_slots: Sequence[int]
    ) -> list[tuple[int, int, bool]]:
        if stage == 1:
            slots = input_slots(tensors, chain_slots)
            numbers: dict[int, int] = {}
            for slot in slots:
                numbers.setdefault(id(tensors[slot]), len(numbers))
            return [
                (slot, numbers[id(tensors[slot])], tensors[slot].requires_grad) for slot in slots
            ]
        chain = [
            (slot, self._returned[id(tensor)], tensor.requires_grad)
            for slot, tensor in enumerate(tensors)
            if id(tensor) in self._returned
        ]
        self._check_input(stage, chain, tensors)
        return chain

    def _described(
        self,
        stage: int,
        template: Any,
        tensors: list[Any],
        chain: list[tuple[int, int, bool]],
        sides: list[int],
        repeats: list[tuple[int, int]],
    ) -> Call:
        of_chain = {slot for slot, _, _ in chain}
        device = tensors[chain[0][0]].device.type
        return Call(
            stage,
            template,
            [
                None if slot in of_chain else tensor.detach() if tensor.requires_grad else tensor
                for slot, tensor in enumerate(tensors)
            ],
            chain,
            sides,
            repeats,
            self._stages[stage - 1].parameters(),
            tuple(tensor.requires_grad for tensor in tensors),
            Autocast.current(device),
        )

    def _check_input(
        self, stage: int, chain: list[tuple[int, int, bool]], tensors: list[Any]
    ) -> None:
        before = self._values[stage - 1]
        # An id can be that of another tensor, once the output is gone.
        if chain and before is not None and before.tensors is not None:
            same = all(
                tensors[slot].data_ptr() == before.tensors[index].data_ptr()
                for slot, index, _ in chain
            )
        else:
            same = bool(chain)
        if not same:
            raise RuntimeError(
                f"{self._stages[stage - 1].name} was not called with the output of "
                f"{self._stages[stage - 2].name}, as it was when stowage.fit saw the model: the "
                "model changes between them. Call stowage.unfit(model), or fit it again"
            )

    # What follows runs inside StageFunction.

    def forward(self, call: Call) -> list[Tensor]:
        """Runs the program up to the first forward of the call's stage. Its outputs, detached."""
        self._run_to(self._program.first_forward[call.stage])
        value = self._values[call.stage]
        assert value is not None
        return value.outputs()

    def backward(self, call: Call, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Runs the program up to the call's backward. The gradients of the Function's inputs."""
        end = self._program.backward[call.stage]
        if self._over or self._next > end:
            raise RuntimeError(
                f"the backward of {self._stages[call.stage - 1].name} runs a second time, and "
                "under a schedule what it needs is gone. Call stowage.unfit(model) to use "
                "retain_graph or gradients of gradients"
            )
        self._gradients = gradients
        self._current = call.stage
        try:
            self._run_to(end)
        except BaseException:
            self._finish()
            raise
        finally:
            self._gradients = ()
            self._current = 0
        results, self._results = self._results, []
        if call.stage == self._lowest:
            self._finish()
        return results

    def _finish(self) -> None:
        """Drops all that is held."""
        if self._observed is not None and not self._over and all(s.saved for s in self._sizes):
            self._observed(self._sizes)
        self._over = True
        self._values = [None] * len(self._values)
        self._calls = [None] * len(self._calls)

    def _run_to(self, end: int) -> None:
        operations = self._program.operations
        while self._next <= end:
            step, stage = operations[self._next]
            self._next += 1
            if stage > self.called:
                continue  # the model has left its layers early
            if step <= Step.DISCARD:
                self._run_forward(step, stage, first=self._next - 1)
            elif step == Step.BACKWARD:
                self._run_backward(stage)
            else:
                self._transfer(step, stage)

    def _run_forward(self, step: Step, number: int, first: int) -> None:
        stage = self._stages[number - 1]
        call = self._calls[number]
        before = self._values[number - 1]
        assert call is not None
        assert before is not None
        if before.overwritten():
            raise RuntimeError(
                f"the input of {stage.name} was changed in place after {stage.name} had read it, "
                "so it cannot be recomputed: change a copy, or call stowage.unfit(model)"
            )
        inputs = before.outputs()
        context: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        is_again = self._program.first_forward[number] != first
        runs_again = not is_again and self._program.forwards[number] > 1
        if is_again:
            stage.refuse_changed(call)
            context = stage.replay.again(call.snapshot)
        elif runs_again:
            devices = () if inputs[0].device.type == "cpu" else (inputs[0].device,)
            context = stage.replay.first(devices, call.snapshot)
        with context, call.autocast.again():
            if step == Step.SAVE:
                self._values[number] = self._save(number, stage, call, inputs)
            else:
                self._values[number] = Value.of(_without_gradients(stage, call, inputs))
        if runs_again:
            stage.note_versions(call)
        if step == Step.DISCARD:
            self._values[number - 1] = None

    def _save(self, number: int, stage: Stage, call: Call, inputs: Sequence[Tensor]) -> Value:
        # What leaves the device must not be held by the graph, nor what its input is.
        travels = self._program.travels
        holds = not (travels[number] or travels[number - 1] or self._program.observes)
        tensors, leaves = _arguments(call, inputs, with_gradients=True, holds_inputs=holds)
        args, kwargs = put_tensors(call.template, tensors)
        if holds:
            with torch.enable_grad():
                outputs = _outputs(stage, call, stage.run(args, kwargs))
                relays = [tensors[slot].view_as(tensors[slot]) for slot in call.sides]
            graph = Graph([*outputs, *relays], leaves, holds_outputs=True)
            return Value.of([output.detach() for output in outputs], graph)
        value = Value(None)
        sides = storage_keys(tensor for tensor in call.tensors if tensor is not None)
        hooks = SavedTensors(
            value, inputs, stage.kept_storages() | sides, self._input_of(number - 1)
        )
        with torch.enable_grad(), hooks:
            outputs = _outputs(stage, call, stage.run(args, kwargs))
            relays = [tensors[slot].view_as(tensors[slot]) for slot in call.sides]
        value.tensors = [output.detach() for output in outputs]
        value.versions = [output._version for output in outputs]
        value.graph = Graph([*outputs, *relays], leaves, holds_outputs=False)
        if self._program.observes:
            self._observe(number, value)
        return value

    def _observe(self, number: int, value: Value) -> None:
        of_output = Value(None)
        for output in value.tensors or ():
            value.view_of(output)
            of_output.view_of(output)
        self._sizes[number - 1] = Observed(of_output.bytes(), value.bytes())

    def _input_of(self, number: int) -> Callable[[int], Tensor]:
        # Autograd's graph keeps this, and the pass keeps the graph.
        weak = weakref.ref(self)
        name = self._stages[number].name

        def output(index: int) -> Tensor:
            run = weak()
            value = run._values[number] if run is not None else None
            if value is None:
                raise RuntimeError("a backward reads a value that is gone")
            if value.overwritten():
                raise RuntimeError(
                    f"the input of {name} was changed in place after {name} had read it, and its "
                    "backward needs it: change a copy, or call stowage.unfit(model)"
                )
            return value.outputs()[index]

        return output

    def _run_backward(self, number: int) -> None:
        if self._program.plain[number]:  # the caller's own
            self._values[number] = None
            return
        if number != self._current:  # no loss depends on its output
            self._values[number] = None
            return
        call = self._calls[number]
        value = self._values[number]
        before = self._values[number - 1]
        assert call is not None
        assert value is not None
        assert value.graph is not None
        if before is not None:
            before.wait()
        value.wait()
        # Nothing but the graph holds what was saved, which is freed piece by piece.
        graph = value.graph
        self._values[number] = value = None
        found = graph.backward(self._gradients, call.parameters)
        if before is not None and before.graph is None:
            self._values[number - 1] = None
        self._results = _in_order(call, found)

    def _transfer(self, step: Step, number: int) -> None:
        value = self._values[number]
        assert value is not None
        value.hold_as_blocks()
        blocks = value.travelers()
        if step == Step.OFFLOAD:
            value.wait()
            self._transfers.offload(blocks)
        elif step == Step.RELEASE:
            self._transfers.release(blocks)
        else:
            value.arrives = self._transfers.prefetch(blocks)


def _arguments(
    call: Call, inputs: Sequence[Tensor], *, with_gradients: bool, holds_inputs: bool
) -> tuple[list[Tensor], list[Tensor | GradientEdge]]:
    """The tensors of the call, and what to take gradients of."""
    tensors: list[Any] = list(call.tensors)
    leaves: list[Tensor | GradientEdge] = []
    made: dict[int, Tensor] = {}
    for slot, index, needs_gradient in call.chain:
        if index in made:  # a layer may tell that it gets one tensor twice
            tensors[slot] = made[index]
            continue
        tensors[slot] = inputs[index].detach()
        if with_gradients and needs_gradient:
            if holds_inputs:
                leaves.append(tensors[slot].requires_grad_())
            else:
                tensors[slot], edge = begin_of_graph(tensors[slot])
                leaves.append(edge)
        made[index] = tensors[slot]
    if with_gradients:
        for slot in call.sides:
            tensors[slot] = tensors[slot].detach().requires_grad_()
            leaves.append(tensors[slot])
        for slot, first in call.repeats:
            tensors[slot] = tensors[first]
    return tensors, leaves


def _distinct(chain: Sequence[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """The entries of a call's chain, each tensor once, in the order of their indices."""
    firsts: dict[int, tuple[int, int, bool]] = {}
    for entry in chain:
        firsts.setdefault(entry[1], entry)
    return list(firsts.values())


def _sides(
    tensors: Sequence[Tensor], of_chain: set[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Slots of the side inputs that need a gradient, each once, and the slots that repeat one."""
    firsts: dict[int, int] = {}
    repeats: list[tuple[int, int]] = []
    for slot, tensor in enumerate(tensors):
        if not tensor.requires_grad or slot in of_chain:
            continue
        first = firsts.setdefault(id(tensor), slot)
        if first != slot:
            repeats.append((slot, first))
    return list(firsts.values()), repeats


def _in_order(call: Call, found: list[Tensor | None]) -> list[Tensor | None]:
    """The gradients of all of the Function's inputs, from those of the ones that need one."""
    gradients = iter(found)
    of_chain = [next(gradients) if needs else None for _, _, needs in _distinct(call.chain)]
    return [*of_chain, *gradients]


def _outputs(stage: Stage, call: Call, returned: Any) -> list[Tensor]:
    tensors: list[Tensor] = []
    call.output = take_tensors(returned, tensors)
    if torch.is_grad_enabled():
        call.need_gradients = stage.note_outputs(call.needs, len(call.parameters), tensors)
    else:
        call.need_gradients = can_need(tensors)
    return tensors


def _drop(tensor: Tensor) -> None:
    return None


def _never(saved: Any) -> Tensor:
    raise RuntimeError("this forward saved nothing")


def _without_gradients(stage: Stage, call: Call, inputs: Sequence[Tensor]) -> list[Tensor]:
    needs_gradients = (
        stage.needs_grad_mode
        or not stage.outputs_need.get((call.needs, len(call.parameters)))
        or stage.training_modes() != stage.modes
    )
    tensors, _ = _arguments(call, inputs, with_gradients=needs_gradients, holds_inputs=True)
    args, kwargs = put_tensors(call.template, tensors)
    if needs_gradients:
        # Takes the kernels that it takes with gradients, and keeps nothing for a backward.
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_drop, _never):
            outputs = _outputs(stage, call, stage.run(args, kwargs))
    else:
        with torch.no_grad():
            outputs = _outputs(stage, call, stage.run(args, kwargs))
    return [output.detach() for output in outputs]

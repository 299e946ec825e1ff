"""Calls a model with each layer's forward replaced by a measurement of that layer."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.torch.distributed.sharding import part_of
from stowage.torch.layers.discover import refuse_caches
from stowage.torch.layers.installation import Installation
from stowage.torch.layers.stage import Call, Stage, input_slots
from stowage.torch.layers.structure import put_tensors, take_tensors
from stowage.torch.measuring.workload import Progress, Workload
from stowage.torch.tensors.graph_leaves import leaves_of
from stowage.torch.tensors.replay import Context, Snapshot
from stowage.torch.tensors.saved_tensors import FirstRun, Note
from stowage.torch.tensors.storages import is_alias, parts_of, storage_key


@dataclass(slots=True)
class Arguments:
    """A layer's arguments, with its own copies of what gradients are taken of."""

    stage: Stage
    template: Any
    tensors: list[Any]
    chain: list[int]  # slots of the value of the chain
    context: Context
    output: Any = None
    need_gradients: tuple[bool, ...] = ()  # by output
    notes: list[Note] = field(default_factory=list)  # of the last run that did not save

    @property
    def values(self) -> list[Tensor]:
        """The tensors of the value of the chain, each once."""
        return list({id(self.tensors[slot]): self.tensors[slot] for slot in self.chain}.values())

    @property
    def chain_indices(self) -> list[tuple[int, int]]:
        """Slots of the value of the chain, and the indices in it."""
        indices = {id(tensor): index for index, tensor in enumerate(self.values)}
        return [(slot, indices[id(self.tensors[slot])]) for slot in self.chain]

    def call(self, snapshot: Snapshot, notes: Sequence[Note]) -> Call:
        """What a replay needs."""
        return Call(
            self.template,
            [
                None if slot in self.chain else tensor if tensor.is_leaf else tensor.detach()
                for slot, tensor in enumerate(self.tensors)
            ],
            tuple(tensor.requires_grad for tensor in self.tensors),
            self.chain_indices,
            self.context,
            snapshot,
            notes,
        )

    def run(
        self, *, gradients: bool, saves: bool = True, caches: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs, and the tensors that their gradients are taken of.

        With `gradients`, but not `saves`, runs as a layer whose backward needs another run. With
        `caches`, autocast caches what it casts, as in training.
        """
        hooks = None if saves else Drops(self)
        run = self.stage.run if hooks is None else hooks.around(self.stage.run)
        outputs, leaves = self.run_by(run, gradients=gradients, caches=caches)
        if hooks is not None:
            self.notes = hooks.notes
        return outputs, leaves

    def run_by(
        self, run: Callable[[Any, Any], Any], *, gradients: bool, caches: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The same of `run`, called in place of the layer with its arguments."""
        tensors = list(self.tensors)
        leaves: list[Tensor] = []
        made: dict[int, Tensor] = {}
        for slot, tensor in enumerate(self.tensors):
            if id(tensor) in made:
                tensors[slot] = made[id(tensor)]
            elif slot in self.chain or tensor.requires_grad:
                tensors[slot] = made[id(tensor)] = tensor.detach()
                if gradients and tensor.requires_grad:
                    leaves.append(tensors[slot].requires_grad_())
        args, kwargs = put_tensors(self.template, tensors)
        context = contextlib.nullcontext() if caches else self.context.again()
        with torch.set_grad_enabled(gradients), context:
            returned = run(args, kwargs)
        outputs: list[Tensor] = []
        self.output = take_tensors(returned, outputs)
        if gradients:
            self.need_gradients = tuple(output.requires_grad for output in outputs)
        return outputs, leaves

    def for_the_model(
        self, outputs: Sequence[Tensor], anchor: Tensor, arrived: list[int]
    ) -> tuple[Any, list[Tensor]]:
        """What the layer returned, as the beginning of a graph that notes its gradients' bytes."""
        with torch.enable_grad():
            fresh = [
                _Begin.apply(anchor, output.detach(), arrived)
                if needs_gradient
                else output.detach()
                for output, needs_gradient in zip(outputs, self.need_gradients, strict=True)
            ]
        return put_tensors(self.output, fresh), fresh


class _Begin(torch.autograd.Function):
    """Begins a graph at a tensor that, other than a leaf, may be changed in place."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tensor: Tensor, arrived: list[int]) -> Tensor:
        ctx.arrived = arrived
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.arrived.append(part_of(gradients[0]).nbytes)
        return None, None, None


class _Nothing:
    """Holds nothing of what a layer saves."""

    def __init__(self, layer: str) -> None:
        self._layer = layer

    def take(self, stage: int, number: int) -> Tensor:
        raise NotAChainError(
            f"{self._layer} saves what a backward reads while it is measured: it runs a backward "
            "inside its forward, or reads what is computed once for several runs, as under "
            "parametrize.cached(); leave that out, or the layer, with layers="
        )


class Drops(FirstRun):
    """Takes notes of what a layer saves, which no backward reads."""

    def __init__(self, arguments: Arguments) -> None:
        name, chain = arguments.stage.name, arguments.chain_indices
        super().__init__(_Nothing(name), 0, name, arguments.tensors, chain, saves=False)

    def around(self, run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def runs(args: Any, kwargs: Any) -> Any:
            with self:
                return run(args, kwargs)

        return runs

    def _unpack(self, packed: Any) -> Tensor:
        return self._holder.take(self._stage, 0)


def refuse_attributes_of_hooks(stage: Stage) -> None:
    """Raises where a hook before a layer makes what the layer reads, as a weight of two others."""
    for module in stage.modules:
        for name, value in vars(module).items() if module._forward_pre_hooks else ():
            if isinstance(value, Tensor) and value.grad_fn is not None:
                raise NotAChainError(
                    f"a hook of {stage.name} computes its {name!r} before each call, which a "
                    "recomputation would not: use torch.nn.utils.parametrizations in place of "
                    "torch.nn.utils.weight_norm and spectral_norm, or leave the layer out, with "
                    "layers="
                )


class Walk:
    """Calls the model with each layer's forward replaced by a measurement."""

    def __init__(
        self,
        stages: Sequence[Stage],
        input_slots: Sequence[int] | None,
        work: Workload,
        progress: Progress,
    ) -> None:
        """`input_slots` are those of `Layers`."""
        self.stages = stages
        self.work = work
        self._slots = input_slots
        self._progress = progress
        self._called = 0  # the last stage, of this walk
        self.last: list[Tensor] = []  # what the layer before returned to the model
        self.arrived: list[int] = []  # bytes of the gradients of the last layer's outputs
        self.anchor = torch.empty(0)  # where the graph of what follows the last layer begins

    def walk(self) -> Any:
        """The model's output. Calls `stage` for each layer."""
        self._called = 0
        installed = Installation(self.stages, self._handle)
        try:
            output = self.work.forward()
        finally:
            installed.remove()
        self._refuse_other_calls(len(self.stages) + 1)
        return output

    def _refuse_other_calls(self, number: int) -> None:
        """Raises where the stage before is not the one that was called last."""
        if self._called != number - 1:
            name = self.stages[min(self._called, len(self.stages) - 1)].name
            raise NotAChainError(
                f"{name} is not called, or not in its turn, each time the model runs, as where "
                "layers are skipped at random: have all layers run while stowage.fit measures, or "
                "leave those out, with layers="
            )

    def leaves_after(self, loss: Tensor) -> list[Tensor]:
        """What the loss reaches behind the layers. It may also depend on what left a layer beside
        its return value, while that was measured: in a graph that is gone.
        """
        inside = {id(p) for stage in self.stages for p in stage.parameters()}
        return [
            leaf
            for leaf in leaves_of([loss])
            if leaf is self.anchor or (isinstance(leaf, nn.Parameter) and id(leaf) not in inside)
        ]

    def backward(self, loss: Tensor) -> None:
        """Of what follows the last layer."""
        # As where each step's autocast ends before its backward: what it has cast is the step's.
        torch.clear_autocast_cache()
        leaves = self.leaves_after(loss)
        if leaves:
            torch.autograd.backward([loss], inputs=leaves)

    def _handle(self, number: int, args: Any, kwargs: Any) -> Any:
        self._refuse_other_calls(number)
        self._called = number
        stage = self.stages[number - 1]
        self._progress(f"profiling {stage.name}", number / (len(self.stages) + 1))
        tensors: list[Any] = []
        template = take_tensors((args, kwargs), tensors)
        chain = self._chain(number, tensors)
        refuse_caches(stage.name, args, kwargs)
        refuse_attributes_of_hooks(stage)
        device = tensors[chain[0]].device.type
        arguments = Arguments(stage, template, tensors, chain, Context.current(device))
        outputs = self.measure_stage(number, arguments)
        return self.for_the_model(number, arguments, outputs)

    def _chain(self, number: int, tensors: Sequence[Tensor]) -> list[int]:
        """The slots of the value of the chain; of a layer apart, of what gradients are taken of."""
        if self._slots is None:
            made = [i for i, t in enumerate(tensors) if t.requires_grad and not t.is_leaf]
            return made or list(input_slots(tensors, [len(tensors)]))
        if number == 1:
            return list(input_slots(tensors, self._slots))
        stage = self.stages[number - 1]
        same = is_alias if stage.is_sharded else operator.is_
        chain = [
            slot
            for slot, tensor in enumerate(tensors)
            if any(same(tensor, output) for output in self.last)
        ]
        if not chain:
            raise NotAChainError(
                f"{stage.name} does not get the output of {self.stages[number - 2].name} as it "
                "was returned: something changes it between them, such as a hook on a layer, or "
                "the layers run without gradients; leave those layers out, with layers="
            )
        return chain

    def for_the_model(self, number: int, arguments: Arguments, outputs: Sequence[Tensor]) -> Any:
        """What the model goes on with: the beginning of a graph."""
        self.arrived.clear()
        self.anchor = torch.empty(0, requires_grad=True)
        result, self.last = arguments.for_the_model(outputs, self.anchor, self.arrived)
        return result

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        raise NotImplementedError


def distinct(tensors: Sequence[Tensor]) -> list[torch.UntypedStorage]:
    """The storages of the tensors, each once."""
    parts = [part for tensor in tensors for part in parts_of(tensor)]
    return list({storage_key(part): part.untyped_storage() for part in parts}.values())

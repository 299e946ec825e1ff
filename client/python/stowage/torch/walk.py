"""Calls a model with each layer's forward replaced by a measurement of that layer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from stowage.errors import NotAChainError
from stowage.torch.coordinator import Installation
from stowage.torch.discover import refuse_caches
from stowage.torch.graph_leaves import leaves_of
from stowage.torch.replay import Context
from stowage.torch.stage import Stage, input_slots
from stowage.torch.structure import put_tensors, take_tensors
from stowage.torch.values import parts_of, storage_key
from stowage.torch.workload import Progress, Workload


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

    def run(self, *, gradients: bool, saves: bool = True) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs, and the tensors that their gradients are taken of.

        With `gradients`, but not `saves`, runs as a layer whose backward needs another run.
        """
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
        hooks = contextlib.nullcontext() if saves else saved_tensors_hooks(_drop, _never)
        with torch.set_grad_enabled(gradients), self.context.again(), hooks:
            returned = self.stage.run(args, kwargs)
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
        ctx.arrived.append(gradients[0].nbytes)
        return None, None, None


def _drop(tensor: Tensor) -> None:
    return None


def _never(saved: Any) -> Tensor:
    raise NotAChainError(
        "a layer runs a backward inside its forward, whose values a recomputation would change"
    )


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
        input_slots: Sequence[int],
        work: Workload,
        progress: Progress,
    ) -> None:
        self.stages = stages
        self.work = work
        self._slots = input_slots
        self._progress = progress
        self.last: list[Tensor] = []  # what the layer before returned to the model
        self.arrived: list[int] = []  # bytes of the gradients of the last layer's outputs
        self._anchor = torch.empty(0)  # where the graph of what follows the last layer begins

    def walk(self) -> Any:
        """The model's output. Calls `stage` for each layer."""
        installed = Installation(self.stages, self._handle)
        try:
            return self.work.forward()
        finally:
            installed.remove()

    def leaves_after(self, loss: Tensor) -> list[Tensor]:
        """What the loss reaches behind the layers. It may also depend on what left a layer beside
        its return value, while that was measured: in a graph that is gone.
        """
        inside = {id(p) for stage in self.stages for p in stage.parameters()}
        return [
            leaf
            for leaf in leaves_of([loss])
            if leaf is self._anchor or (isinstance(leaf, nn.Parameter) and id(leaf) not in inside)
        ]

    def backward(self, loss: Tensor) -> None:
        """Of what follows the last layer."""
        # As where each step's autocast ends before its backward: what it has cast is the step's.
        torch.clear_autocast_cache()
        leaves = self.leaves_after(loss)
        if leaves:
            torch.autograd.backward([loss], inputs=leaves)

    def _handle(self, number: int, args: Any, kwargs: Any) -> Any:
        stage = self.stages[number - 1]
        self._progress(f"profiling {stage.name}", number / (len(self.stages) + 1))
        tensors: list[Any] = []
        template = take_tensors((args, kwargs), tensors)
        if number == 1:
            chain = list(input_slots(tensors, self._slots))
        else:
            returned = {id(tensor) for tensor in self.last}
            chain = [slot for slot, tensor in enumerate(tensors) if id(tensor) in returned]
        refuse_caches(stage.name, args, kwargs)
        refuse_attributes_of_hooks(stage)
        if not chain:
            raise NotAChainError(
                f"{stage.name} does not get the output of {self.stages[number - 2].name} as it "
                "was returned: something changes it between them, such as a hook on a layer, or "
                "the layers run without gradients; leave those layers out, with layers="
            )
        device = tensors[chain[0]].device.type
        arguments = Arguments(stage, template, tensors, chain, Context.current(device))
        outputs = self.measure_stage(number, arguments)
        self.arrived.clear()
        self._anchor = torch.empty(0, requires_grad=True)
        result, self.last = arguments.for_the_model(outputs, self._anchor, self.arrived)
        return result

    def measure_stage(self, number: int, arguments: Arguments) -> list[Tensor]:
        raise NotImplementedError


def distinct(tensors: Sequence[Tensor]) -> list[torch.UntypedStorage]:
    """The storages of the tensors, each once."""
    parts = [part for tensor in tensors for part in parts_of(tensor)]
    return list({storage_key(part): part.untyped_storage() for part in parts}.values())

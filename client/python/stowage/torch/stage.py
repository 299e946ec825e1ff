"""A layer of the user's model as the executor sees it, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from stowage.torch.replay import Autocast, Replay, Snapshot
from stowage.torch.values import storage_keys


class Stage:
    """A layer of the user's model, or several that run as one: what the executor has to know."""

    def __init__(self, name: str, modules: Sequence[nn.Module]) -> None:
        self.name = name
        self.modules = tuple(modules)
        self.parts: nn.Module = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
        self.forwards: tuple[Callable[..., Any], ...] = ()  # of the modules, the user's own
        self.replay = Replay(self.parts)
        # Its output without gradients differs from that with them: it always runs with gradients.
        self.needs_grad_mode = False
        # By which arguments need a gradient, and how many parameters do: whether all outputs that
        # can have one need one. Otherwise it runs with gradients, too, which tells.
        self.outputs_need: dict[tuple[tuple[bool, ...], int], bool] = {}
        # Known for these training modes of its parts; in others it runs with gradients, too.
        self.modes: tuple[bool, ...] = self.training_modes()

    def run(self, args: Any, kwargs: Any) -> Any:
        output = self.forwards[0](*args, **kwargs)
        for forward in self.forwards[1:]:
            output = forward(output)
        return output

    def training_modes(self) -> tuple[bool, ...]:
        return tuple(part.training for part in self.parts.modules())

    def note_outputs(
        self, needs: tuple[bool, ...], parameters: int, outputs: Sequence[Tensor]
    ) -> tuple[bool, ...]:
        """Which outputs of a run with gradients need one."""
        key = needs, parameters
        found = tuple(output.requires_grad for output in outputs)
        self.outputs_need[key] = self.outputs_need.get(key, True) and found == can_need(outputs)
        return found

    def note_versions(self, call: Call) -> None:
        tensors = [*self.parts.parameters(), *(t for t in call.tensors if t is not None)]
        call.versions = [(tensor, tensor._version) for tensor in tensors]

    def parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.parts.parameters() if parameter.requires_grad]

    def refuse_changed(self, call: Call) -> None:
        """Raises where what a recomputation reads is not what the first run has read."""
        for tensor, version in call.versions:
            if tensor._version != version:
                names = {id(p): f"parameter {name}" for name, p in self.parts.named_parameters()}
                raise RuntimeError(
                    f"{names.get(id(tensor), 'an argument')} of {self.name} was changed in place "
                    f"after {self.name} had read it, so it cannot be recomputed: change a copy, "
                    "change it after the backward, or call stowage.unfit(model)"
                )

    def kept_storages(self) -> set[int]:
        """The storages that are no part of its value."""
        return storage_keys([*self.parts.parameters(), *self.parts.buffers()])


@dataclass(slots=True)
class Call:
    """The arguments of a layer's call, without the values of the chain that are among them."""

    stage: int
    template: Any  # (args, kwargs) with a Slot for each tensor
    tensors: list[Tensor | None]  # side inputs; None: a value of the chain
    chain: list[tuple[int, int, bool]]  # slot, index in the value before, needs a gradient
    sides: list[int]  # slots of the side inputs that need a gradient
    repeats: list[tuple[int, int]]  # slots of a side input that an earlier slot has, too
    parameters: list[Tensor]
    needs: tuple[bool, ...]  # by tensor among the arguments: whether it needs a gradient
    autocast: Autocast
    # Of parameters and side inputs, after the first run, where there are others.
    versions: list[tuple[Tensor, int]] = field(default_factory=list)
    snapshot: Snapshot = field(default_factory=Snapshot)
    need_gradients: Sequence[bool] = ()  # by output
    output: Any = None  # the template of what the layer returned


def can_need(outputs: Sequence[Tensor]) -> tuple[bool, ...]:
    """Which of the tensors can need a gradient."""
    return tuple(output.is_floating_point() or output.is_complex() for output in outputs)


def input_slots(tensors: Sequence[Tensor], likely: Sequence[int]) -> Sequence[int]:
    """Which tensors of the first layer's arguments are the chain's input.

    `likely` are those of the second layer; the first one may be called with fewer.
    """
    if all(slot < len(tensors) for slot in likely):
        return likely
    return [next((i for i, tensor in enumerate(tensors) if tensor.is_floating_point()), 0)]

"""How much of the device's memory is left for activations."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stowage.errors import BudgetError, InvalidRequestError
from stowage.local import parse_bytes
from stowage.torch.distributed.sharding import part_of
from stowage.torch.tensors.storages import parts_of, storage_key

_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*%\s*")


def bytes_of(size: int | str, name: str, whole: int, whole_name: str) -> int:
    """Bytes of 12_000_000_000, "12GiB", "1.5GB" or, of `whole`, "80%"; the names are for errors."""
    match = _PERCENT.fullmatch(size) if isinstance(size, str) else None
    if match and float(match[1]) <= 100:
        return int(whole * float(match[1]) / 100)
    with contextlib.suppress(InvalidRequestError):
        return parse_bytes(size, name)
    raise BudgetError(
        f'{name}: is {size!r}; it must be bytes, as 12_000_000_000, or a text as "12GiB", "1.5GB" '
        f'or "80%", from 0 to 100 % of {whole_name}'
    )


def device_memory(device: torch.device) -> int:
    """The memory of the device in bytes; of the host where the device is a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a training job holds beside activations, in bytes."""

    weights: int  # parameters and buffers
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer


def memory_use(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    optimizer_copies: float,
    gradient_copies: int = 1,
) -> MemoryUse:
    """What `model` takes of this process; of sharded parameters, its part.

    Without an optimizer, so many copies of the trained parameters for it.
    """
    parameters = list(model.parameters())
    weights = _bytes([*parameters, *model.buffers()])
    trained = _bytes(parameter for parameter in parameters if parameter.requires_grad)
    if optimizer is None:
        state = int(trained * optimizer_copies)
    else:
        held = [
            value
            for entries in optimizer.state.values()
            for value in entries.values()
            if isinstance(value, Tensor) and value.ndim > 0
        ]
        state = max(_bytes(held), int(trained * _copies(optimizer)) if not held else 0)
    return MemoryUse(weights, gradient_copies * trained, state)


def _copies(optimizer: torch.optim.Optimizer) -> int:
    """How many copies of the parameters an optimizer makes at its first step; 2 where unknown."""
    options = optimizer.defaults
    if isinstance(optimizer, torch.optim.SGD):
        return 1 if options.get("momentum") else 0
    if isinstance(optimizer, torch.optim.RMSprop):
        return 1 + bool(options.get("momentum")) + bool(options.get("centered"))
    if isinstance(optimizer, torch.optim.Adagrad):
        return 1
    return 3 if options.get("amsgrad") else 2


def _bytes(tensors: Iterable[Tensor]) -> int:
    parts = [part for tensor in tensors for part in parts_of(part_of(tensor))]
    return sum({storage_key(part): part.untyped_storage().nbytes() for part in parts}.values())

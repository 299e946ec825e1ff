"""A model whose tensors are stand-ins: sizes and types, no content."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import StowageError
from stowage.torch.sharding import part_of


def built(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """The model; one that is made here has no memory for its parameters."""
    if isinstance(model, nn.Module):
        return model
    with torch.device("meta"):
        made = model()
    if not isinstance(made, nn.Module):
        raise TypeError(f"model: made {type(made).__name__}; pass a module, or what makes one")
    return made


@contextlib.contextmanager
def stand_ins(model: nn.Module) -> Iterator[None]:
    """Replaces the model's tensors, under a FakeTensorMode, and puts them back. One thread."""
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    made: dict[int, Tensor] = {}  # a tensor may be in several places
    try:
        for name, module in model.named_modules():
            for tensors in (module._parameters, module._buffers, vars(module)):
                for key, value in list(tensors.items()):
                    if not isinstance(value, Tensor):
                        continue
                    if part_of(value) is not value:
                        raise StowageError(
                            f"{name}.{key} is sharded: estimate the model before fully_shard or "
                            "parallelize_module"
                        )
                    if id(value) not in made:
                        made[id(value)] = stand_in(value)
                    replaced.append((tensors, key, value))
                    tensors[key] = made[id(value)]
        yield
    finally:
        for tensors, key, value in replaced:
            tensors[key] = value


def stand_in(tensor: Tensor) -> Tensor:
    """Of that size, type and layout, under a FakeTensorMode; a parameter of a parameter."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)

"""A model whose tensors are stand-ins: sizes and types, no content."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import StowageError
from stowage.torch.sharding import part_of
from stowage.torch.structure import put_tensors, take_tensors


def built(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """The model; one that is made here has no memory for its parameters."""
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise TypeError(f"model: is {model!r:.99}; pass a module, or what makes one, as a lambda")
    with torch.device("meta"):
        made = model()
    if not isinstance(made, nn.Module):
        raise TypeError(f"model: made {type(made).__name__}; pass a module, or what makes one")
    return made


def copy_without_content(module: nn.Module) -> nn.Module:
    """A copy with stand-ins for its tensors, under a FakeTensorMode: what a step leaves behind in
    it is not the caller's.
    """
    made: dict[int, Any] = {}  # a tensor may be in several places
    for name, part in module.named_modules():
        for tensors in (part._parameters, part._buffers, vars(part)):
            for key, value in tensors.items():
                if isinstance(value, Tensor) and id(value) not in made:
                    _check_kind(value, f"{name}.{key}" if name else key)
                    made[id(value)] = _stand_in(value)
    try:
        return copy.deepcopy(module, made)
    except Exception as error:
        raise StowageError(
            f"the model cannot be copied ({error}): pass what makes it, as a lambda"
        ) from error


def sample_without_content(sample: Any) -> Any:
    tensors: list[Tensor] = []
    template = take_tensors(sample, tensors)
    made = {id(tensor): _stand_in(tensor) for tensor in tensors}  # labels may be the input
    return put_tensors(template, [made[id(tensor)] for tensor in tensors])


def _check_kind(tensor: Tensor, name: str) -> None:
    if part_of(tensor) is not tensor:
        raise StowageError(
            f"{name} is sharded: estimate the model before fully_shard or parallelize_module"
        )
    if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer):
        raise StowageError(
            f"{name} is a {type(tensor).__name__}, whose bytes are not known: estimate the model "
            "before it is quantized, or once it has been called"
        )


def _stand_in(tensor: Tensor) -> Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)

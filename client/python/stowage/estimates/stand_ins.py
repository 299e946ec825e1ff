"""A model whose tensors are stand-ins: sizes and types, no content."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import StowageError
from stowage.torch.distributed.sharding import is_fully_sharded, is_sharded
from stowage.torch.layers.structure import put_tensors, take_tensors


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
    for path, tensors, key in _places_of_tensors(module):
        if id(tensors[key]) not in made:
            _check_kind(tensors[key], path)
            made[id(tensors[key])] = _stand_in(tensors[key])
    try:
        return copy.deepcopy(module, made)
    except Exception as error:
        raise StowageError(
            f"the model cannot be copied ({error}): pass what makes it, as a lambda"
        ) from error


def fill(model: nn.Module) -> None:
    """Puts stand-ins into a model that was made on "meta", under a FakeTensorMode. Models that are
    sharded cannot be copied.
    """
    made: dict[int, Tensor] = {}
    for path, tensors, key in list(_places_of_tensors(model)):
        tensor = tensors[key]
        if isinstance(tensor, nn.Parameter) and not tensor.is_meta and id(tensor) not in made:
            raise StowageError(
                f"ranks: {path} is on {tensor.device}: make the model in what is passed as such, "
                "without a device"
            )
        if is_sharded(tensor):
            if tensor.is_meta:
                _fill_sharded(tensor)
                made[id(tensor)] = tensor
            continue
        if id(tensor) not in made:
            _check_kind(tensor, path)
            made[id(tensor)] = _stand_in(tensor)
        tensors[key] = made[id(tensor)]
    for module in filter(is_fully_sharded, model.modules()):
        for group in module._get_fsdp_state()._fsdp_param_groups:  # type: ignore[operator, unused-ignore]
            for parameter in group.fsdp_params:
                parameter.reset_sharded_param()


def _fill_sharded(tensor: Any) -> None:
    """It stays the same object, which `fully_shard` keeps."""
    empty = torch.empty_like(tensor.detach(), device="cpu")
    if isinstance(tensor, nn.Parameter):
        empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
    torch.utils.swap_tensors(tensor, empty)  # type: ignore[no-untyped-call, unused-ignore]


def _places_of_tensors(module: nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    """By path: the dict that has the tensor, and its key there."""
    for name, part in module.named_modules():
        for tensors in (part._parameters, part._buffers, vars(part)):
            for key, value in tensors.items():
                if isinstance(value, Tensor):
                    yield f"{name}.{key}" if name else key, tensors, key


def sample_without_content(sample: Any) -> Any:
    tensors: list[Tensor] = []
    template = take_tensors(sample, tensors)
    made = {id(tensor): _stand_in(tensor) for tensor in tensors}  # labels may be the input
    return put_tensors(template, [made[id(tensor)] for tensor in tensors])


def _check_kind(tensor: Tensor, name: str) -> None:
    if is_sharded(tensor):
        raise StowageError(
            f"{name} is sharded: pass what makes and shards the model, as a lambda, and ranks="
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

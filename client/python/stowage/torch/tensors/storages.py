"""Tensors by the storages that hold them, and what is kept of a tensor.

A block is a storage that can be freed and come back at another address; tensors in it are kept as
views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def storage_key(tensor: Tensor) -> int:
    """Equal for tensors that share memory, while one of them is alive."""
    return int(tensor.untyped_storage()._cdata)


def parts_of(tensor: Tensor) -> list[Tensor]:
    """The strided tensors that hold it: itself, or the parts of a sparse one, or what a DTensor,
    or another tensor around tensors, has in this process.
    """
    if type(tensor) in PLAIN_TYPES and tensor.layout == torch.strided:
        return [tensor]
    held = held_by(tensor)
    if len(held) == 1 and held[0] is tensor:
        return held
    return [part for inner in held for part in parts_of(inner)]


def held_by(tensor: Tensor) -> list[Tensor]:
    """The tensors that it is around; itself where it is strided and around none."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        inner = (getattr(tensor, name) for name in names)
        return [each for each in inner if isinstance(each, Tensor)]
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def arrived(tensor: Tensor) -> Tensor:
    """The tensor; where it is what a collective will give, that, once it is there."""
    wait = None if type(tensor) in PLAIN_TYPES else getattr(tensor, "trigger_wait", None)
    return tensor if wait is None else wait()  # type: ignore[no-any-return, unused-ignore]


PLAIN_TYPES = (Tensor, torch.nn.Parameter, FakeTensor)


def is_stand_in(tensor: Tensor) -> bool:
    """Whether it has a size and no content."""
    return isinstance(tensor, FakeTensor)


def storage_keys(tensors: Iterable[Tensor]) -> set[int]:
    return {storage_key(part) for tensor in tensors for part in parts_of(tensor)}


def has_plain_storage(tensor: Tensor) -> bool:
    """Whether the tensor is a strided view of a storage of its own type, as nearly all are."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def version_of(tensor: Tensor) -> int:
    """Counts changes in place; of a tensor of `torch.inference_mode`, nothing does."""
    return -1 if tensor.is_inference() else tensor._version


def reference_to(storage: torch.UntypedStorage) -> Any:
    """Holds no memory, and says by `expired()` whether it is gone. While the reference is there, no
    other storage gets the key of this one.
    """
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call, unused-ignore]


def storage_of(reference: Any) -> torch.UntypedStorage | None:
    """What `reference_to` was made of; None: it is gone."""
    if reference.expired():
        return None
    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)  # type: ignore[no-any-return, unused-ignore]


def is_alias(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same elements in the same memory."""
    if one is other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if has_plain_storage(one) and has_plain_storage(other):
        return (
            storage_key(one) == storage_key(other)
            and one.stride() == other.stride()
            and bool(one.storage_offset() == other.storage_offset())
        )
    if type(one) is not type(other) or not is_traceable_wrapper_subclass(one):
        return False
    parts, others = parts_of(one), parts_of(other)
    return len(parts) == len(others) and all(map(is_alias, parts, others))


@dataclass(slots=True)
class Block:
    """A storage that can leave the device."""

    device: torch.device
    storage: torch.UntypedStorage | None  # None: on the host
    bytes: int
    host: Any = None  # what `Transfers` has of it on the host

    @staticmethod
    def of(tensor: Tensor) -> Block:
        storage = tensor.untyped_storage()
        return Block(tensor.device, storage, storage.nbytes())


class Version:
    """A tensor's version, which counts changes in place; does not hold the tensor's memory."""

    __slots__ = ("_counter", "_version")

    def __init__(self, tensor: Tensor, version: int) -> None:
        self._counter = tensor.detach()  # has the same counter
        if tensor.layout == torch.strided:
            self._counter.data = tensor.new_empty(0)
        self._version = version

    def is_current(self) -> bool:
        return self._counter._version == self._version


def raise_changed(layer: str) -> NoReturn:
    raise RuntimeError(
        f"a tensor that {layer} had saved for its backward was changed in place: change a copy, or "
        "call stowage.unfit(model)"
    )


@dataclass(frozen=True, slots=True)
class View:
    """A tensor's shape and place in a block."""

    block: Block
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor, block: Block) -> View:
        return View(
            block, tensor.dtype, int(tensor.storage_offset()), tensor.size(), tensor.stride()
        )

    def tensor(self) -> Tensor:
        storage = self.block.storage
        if storage is None:
            raise RuntimeError("a value is used that the schedule has sent to the host")
        tensor = torch.empty(0, dtype=self.dtype, device=self.block.device)
        return tensor.set_(storage, self.offset, self.size, self.stride)


@dataclass(frozen=True, slots=True)
class InputView:
    """A saved tensor in the memory of the stage's input: of whatever is that input then."""

    index: int
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor, index: int) -> InputView:
        return InputView(
            index, tensor.dtype, int(tensor.storage_offset()), tensor.size(), tensor.stride()
        )

    def tensor(self, inputs: Sequence[Tensor]) -> Tensor:
        there = inputs[self.index]
        tensor = torch.empty(0, dtype=self.dtype, device=there.device)
        return tensor.set_(there.untyped_storage(), self.offset, self.size, self.stride)


class Held:
    """A saved tensor that stays as it is, and its version when it was saved."""

    __slots__ = ("_layer", "tensor", "version")

    def __init__(self, tensor: Tensor, layer: str) -> None:
        # An output of an operator must not be held by what the operator has saved.
        self.tensor = tensor if tensor.is_leaf else tensor.detach()
        self.version = tensor._version
        self._layer = layer

    def get(self) -> Tensor:
        if self.tensor._version != self.version:
            raise_changed(self._layer)
        return self.tensor


# What is kept of a saved tensor; None: nothing so far, or no longer.
Saved = Held | InputView | tuple[View, Version] | None


def tensor_of(
    saved: Held | InputView | tuple[View, Version], inputs: Sequence[Tensor], layer: str
) -> Tensor:
    """The tensor that `layer` saved. Its input is on the device as `inputs`."""
    if isinstance(saved, Held):
        return saved.get()
    if isinstance(saved, InputView):
        return saved.tensor(inputs)
    view, version = saved
    if not version.is_current():
        raise_changed(layer)
    return view.tensor()

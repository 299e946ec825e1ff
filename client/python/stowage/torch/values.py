"""Values of the chain in torch's memory.

A value is what a stage leaves: its output, or with it all that its backward needs. Where a schedule
copies a value to the host, or the input that it depends on, tensors are kept as views of blocks:
the storages, which can be freed and come back at another address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from stowage.torch.kept_results import KeptResults


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


@dataclass(slots=True)
class Value:
    """The value of one stage. Either `tensors` or, once it has blocks, `views` are its outputs."""

    tensors: list[Tensor] | None
    saved: list[Saved] | None = None  # None: the output alone
    kept: KeptResults | None = None  # of a stage that is saved in part
    views: list[View | Tensor] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    arrives: Callable[[], None] | None = None  # makes the compute queue wait for a prefetch
    versions: list[int] = field(default_factory=list)  # of the tensors, when they were made
    views_versions: list[Version] = field(default_factory=list)  # of the tensors that views were
    _travelers: list[Block] | None = None

    @staticmethod
    def of(
        tensors: list[Tensor], saved: list[Saved] | None = None, kept: KeptResults | None = None
    ) -> Value:
        """Of outputs, detached."""
        return Value(tensors, saved, kept, versions=[tensor._version for tensor in tensors])

    def overwritten(self) -> bool:
        """Whether the caller has changed an output in place since it was made."""
        if self.tensors is None:
            return not all(version.is_current() for version in self.views_versions)
        return any(
            tensor._version != version
            for tensor, version in zip(self.tensors, self.versions, strict=True)
        )

    def outputs(self) -> list[Tensor]:
        """The stage's outputs, detached. Requires: the value is on the device."""
        self.wait()
        if self.tensors is not None:
            return self.tensors
        return [view.tensor() if isinstance(view, View) else view for view in self.views]

    def wait(self) -> None:
        if self.arrives is not None:
            self.arrives()
            self.arrives = None

    def hold_as_blocks(self, others: Callable[[], set[int]]) -> None:
        """Makes the value able to leave the device, without the storages that are `others`."""
        if self.tensors is None:
            return
        if self.saved is not None:
            stay = others()
            self._views_of(self.saved, stay)
            for outputs in self.kept.outputs.values() if self.kept is not None else ():
                self._views_of(outputs, stay)
        self.views = [self.view_of(tensor) for tensor in self.tensors]
        self.views_versions = [
            Version(tensor, version)
            for tensor, version in zip(self.tensors, self.versions, strict=True)
        ]
        self.tensors = None

    def _views_of(self, parts: list[Any], stay: set[int]) -> None:
        """In place of what is held."""
        for number, held in enumerate(parts):
            if (
                isinstance(held, Held)
                and has_plain_storage(held.tensor)
                and storage_key(held.tensor) not in stay
            ):
                version = Version(held.tensor, held.version)
                parts[number] = self.strided_view_of(held.tensor), version

    def bytes(self) -> int:
        """Of its blocks."""
        return sum(block.bytes for block in self.blocks.values())

    def outputs_bytes(self) -> int:
        """Requires: the value is held as blocks."""
        blocks = {id(view.block): view.block for view in self.views if isinstance(view, View)}
        return sum(block.bytes for block in blocks.values())

    def view_of(self, tensor: Tensor) -> View | Tensor:
        """The tensor as a view of a block of this value; itself where that cannot be."""
        return self.strided_view_of(tensor) if has_plain_storage(tensor) else tensor

    def strided_view_of(self, tensor: Tensor) -> View:
        """Requires: has_plain_storage(tensor)."""
        key = storage_key(tensor)
        block = self.blocks.get(key)
        if block is None:
            block = self.blocks[key] = Block.of(tensor)
        return View.of(tensor, block)

    def travelers(self) -> list[Block]:
        """The blocks that leave the device with the value: not those whose copies take longer than
        what they free is worth, such as BatchNorm's statistics. Requires: the value is complete.
        """
        if self._travelers is None:
            blocks = sorted(self.blocks.values(), key=lambda block: block.bytes)
            stay = self.bytes() // _SHARE_THAT_STAYS
            first = 0
            while first < len(blocks) and blocks[first].bytes <= min(stay, _SMALL_BYTES):
                stay -= blocks[first].bytes
                first += 1
            self._travelers = blocks[first:]
        return self._travelers


_SMALL_BYTES = 64 << 10
_SHARE_THAT_STAYS = 512

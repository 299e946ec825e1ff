"""Values of the chain in torch's memory, and the part of autograd's graph that belongs to one.

A value is what a stage leaves: its output, or with it all that its backward needs. Where a schedule
copies a value to the host, or the input that it depends on, tensors are kept as views of blocks:
the storages, which can be freed and come back at another address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from stowage.errors import NotAChainError


def storage_key(tensor: Tensor) -> int:
    """Equal for tensors that share memory, while one of them is alive."""
    return int(tensor.untyped_storage()._cdata)


def parts_of(tensor: Tensor) -> list[Tensor]:
    """The strided tensors that hold it: itself, or the parts of a sparse one."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def storage_keys(tensors: Iterable[Tensor]) -> set[int]:
    return {storage_key(part) for tensor in tensors for part in parts_of(tensor)}


def has_plain_storage(tensor: Tensor) -> bool:
    """Whether the tensor is a strided view of a storage of its own type, as nearly all are."""
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


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

    def check(self) -> None:
        if not self.is_current():
            raise RuntimeError(_CHANGED)


_CHANGED = (
    "a tensor that a layer had saved for its backward was changed in place: change a copy, or call "
    "stowage.unfit(model)"
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


class Enter(torch.autograd.Function):
    """Begins a graph at a tensor that the graph does not hold, as a leaf's would."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise NotAChainError(
            "a gradient reaches a layer's input by another way than the layer's return value: a "
            "tensor leaves the layer in an attribute, a list or a hook, and a loss depends on it; "
            "make the layer return it, or leave the layer out, with layers="
        )


def begin_of_graph(tensor: Tensor) -> tuple[Tensor, GradientEdge]:
    """The tensor as a stage's input, and what its gradient is taken of."""
    with torch.enable_grad():
        entered = Enter.apply(torch.empty(0, requires_grad=True), tensor)
    return entered, get_gradient_edge(entered)


class Graph:
    """What autograd has recorded of one run of one stage, cut at the stage's inputs."""

    __slots__ = ("_leaves", "_root_indices", "_roots")

    def __init__(
        self,
        outputs: Sequence[Tensor],
        leaves: Sequence[Tensor | GradientEdge],
        *,
        holds_outputs: bool,
    ) -> None:
        self._root_indices = [i for i, output in enumerate(outputs) if output.requires_grad]
        self._roots: list[Tensor | GradientEdge] = [
            outputs[i] if holds_outputs else get_gradient_edge(outputs[i])
            for i in self._root_indices
        ]
        self._leaves = list(leaves)

    def backward(
        self, gradients: Sequence[Tensor | None], parameters: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """The gradients of the leaves and of `parameters`; once.

        Frees what was saved as it goes. Requires: the value, of which this is, has been dropped.
        """
        given = [
            (root, gradients[i])
            for root, i in zip(self._roots, self._root_indices, strict=True)
            if gradients[i] is not None
        ]
        roots: Any = [root for root, _ in given]
        inputs: Any = [*self._leaves, *parameters]
        if not given or not inputs:
            return [None] * len(inputs)
        with _without_hooks(parameters):
            found = torch.autograd.grad(
                roots, inputs, [gradient for _, gradient in given], allow_unused=True
            )
        return list(found)


@contextlib.contextmanager
def _without_hooks(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Leaves the parameters' own hooks to the caller's engine, which calls them once."""
    hooks = [(p._backward_hooks, dict(p._backward_hooks)) for p in parameters if p._backward_hooks]
    for registered, _ in hooks:
        registered.clear()
    try:
        yield
    finally:
        for registered, kept in hooks:
            registered.update(kept)


@dataclass(slots=True)
class Value:
    """The value of one stage. Either `tensors` or, once it has blocks, `views` are its outputs."""

    tensors: list[Tensor] | None
    graph: Graph | None = None  # None: the output alone
    views: list[View | Tensor] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    arrives: Callable[[], None] | None = None  # makes the compute queue wait for a prefetch
    versions: list[int] = field(default_factory=list)  # of the tensors, when they were made
    views_versions: list[Version] = field(default_factory=list)  # of the tensors that views were
    _travelers: list[Block] | None = None

    @staticmethod
    def of(tensors: list[Tensor], graph: Graph | None = None) -> Value:
        return Value(tensors, graph, versions=[tensor._version for tensor in tensors])

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

    def hold_as_blocks(self) -> None:
        """Makes the value able to leave the device."""
        if self.tensors is None:
            return
        self.views = [self.view_of(tensor) for tensor in self.tensors]
        self.views_versions = [
            Version(tensor, version)
            for tensor, version in zip(self.tensors, self.versions, strict=True)
        ]
        self.tensors = None

    def bytes(self) -> int:
        """Of its blocks."""
        return sum(block.bytes for block in self.blocks.values())

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


@dataclass(frozen=True, slots=True)
class Held:
    """A saved tensor that stays as it is, and its version when it was saved."""

    tensor: Tensor
    version: int


Packed = Held | tuple[View | InputView, Version]  # what is kept of a saved tensor


class SavedTensors:
    """Hooks that keep what a stage's forward saves for its backward as views of blocks.

    Parameters, buffers and side inputs are not part of the value; nor is the stage's input, which
    is looked up when the backward reads it, since it may have come back at another address.
    """

    def __init__(
        self,
        value: Value,
        inputs: Sequence[Tensor],
        keeps: set[int],
        input_now: Callable[[int], Tensor],
    ) -> None:
        self._value = value
        self._inputs = {storage_key(tensor): i for i, tensor in enumerate(inputs)}
        self._keeps = keeps
        self._input_now = input_now

    def __enter__(self) -> None:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(
            self._pack, _unpacker(self._input_now)
        )
        self._hooks.__enter__()

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
        # Autograd keeps the hooks, and the value keeps autograd's graph: in C++, where Python's
        # collector sees no cycle.
        del self._value

    def _pack(self, tensor: Tensor) -> Packed:
        # Autograd checks versions itself, but not of what hooks have packed.
        if not has_plain_storage(tensor):
            return Held(tensor, tensor._version)
        key = storage_key(tensor)
        if key in self._keeps:
            return Held(tensor, tensor._version)
        version = Version(tensor, tensor._version)
        index = self._inputs.get(key)
        if index is not None:
            view = InputView(
                index, tensor.dtype, int(tensor.storage_offset()), tensor.size(), tensor.stride()
            )
            return view, version
        return self._value.strided_view_of(tensor), version


def _unpacker(input_now: Callable[[int], Tensor]) -> Callable[[Any], Tensor]:
    def unpack(packed: Packed) -> Tensor:
        if isinstance(packed, Held):
            if packed.tensor._version != packed.version:
                raise RuntimeError(_CHANGED)
            return packed.tensor
        saved, version = packed
        version.check()
        if isinstance(saved, View):
            return saved.tensor()
        there = input_now(saved.index)
        tensor = torch.empty(0, dtype=saved.dtype, device=there.device)
        return tensor.set_(there.untyped_storage(), saved.offset, saved.size, saved.stride)

    return unpack

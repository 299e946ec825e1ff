"""Values of the chain in torch's memory.

A value is what a stage leaves: its output, or with it all that its backward needs. Where a schedule
copies a value to the host, or the input that it depends on, tensors are kept as views of blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from stowage.torch.tensors.kept_results import KeptResults
from stowage.torch.tensors.storages import (
    Block,
    Held,
    Saved,
    Version,
    View,
    has_plain_storage,
    storage_key,
)


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

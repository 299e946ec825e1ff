"""Copies of blocks to the host and back: on two CUDA streams, or at once where there is no GPU.

No call waits on the host. Memory stays ordered without ``record_stream``: blocks are allocated and
freed on the compute stream, which waits for a copy before it frees what was read; the stream of a
copy back waits for the compute stream before it writes memory that the compute stream has freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from stowage.torch.tensors.storages import Block


class Transfers(Protocol):
    """One device's two copy queues."""

    def offload(self, blocks: Iterable[Block]) -> None:
        """Starts copying the blocks to the host; they stay on the device."""

    def release(self, blocks: Iterable[Block]) -> None:
        """Frees the blocks' device memory, once their copies are complete."""

    def prefetch(self, blocks: Iterable[Block]) -> Callable[[], None] | None:
        """Allocates the blocks and starts copying them back.

        Returns what makes the compute queue wait for the copies; None: they are complete.
        """


def _bytes_of(block: Block) -> Tensor:
    if block.storage is None:
        raise RuntimeError("a block is copied that is not on the device")
    return torch.empty(0, dtype=torch.uint8, device=block.device).set_(block.storage)


def _allocate(block: Block) -> Tensor:
    memory = torch.empty(block.bytes, dtype=torch.uint8, device=block.device)
    block.storage = memory.untyped_storage()
    return memory


class HostTransfers:
    """For a device that is the host itself: tests, and models on a CPU.

    Copies lie outside of torch's memory, so that they are not counted as the device's.
    """

    def offload(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            block.host = torch.frombuffer(bytearray(block.bytes or 1), dtype=torch.uint8)
            block.host[: block.bytes].copy_(_bytes_of(block))

    def release(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            block.storage = None

    def prefetch(self, blocks: Iterable[Block]) -> Callable[[], None] | None:
        for block in blocks:
            _allocate(block).copy_(block.host[: block.bytes])
            block.host = None
        return None


def pieces_of(size: int) -> list[int]:
    """Powers of two that hold `size` bytes together: from 32 KiB on, an eighth is spare at most.

    Torch rounds pinned memory up to a power of two, which would be up to twice what a block takes.
    """
    pieces: list[int] = []
    rest = size
    while rest > 0:
        below = 1 << (rest.bit_length() - 1)
        is_last = below < _SMALLEST_PIECE or len(pieces) == 3
        piece = below if rest == below or not is_last else 2 * below
        pieces.append(max(_SMALLEST_PIECE, piece))
        rest -= min(rest, piece)
    return pieces


_SMALLEST_PIECE = 4096


@dataclass(slots=True)
class _Pinned:
    """Pinned host memory that is written again once `read`, the last copy out of it, has ended."""

    memory: Tensor
    read: torch.cuda.Event | None = None


@dataclass(slots=True)
class _HostCopy:
    """A block's bytes on the host, complete once `written` has happened."""

    pieces: list[_Pinned]
    written: torch.cuda.Event


class CudaTransfers:
    """For one GPU. The pinned memory is kept for the next step."""

    def __init__(self, device: torch.device) -> None:
        self._to_host = torch.cuda.Stream(device)  # type: ignore[no-untyped-call, unused-ignore]
        self._to_device = torch.cuda.Stream(device)  # type: ignore[no-untyped-call, unused-ignore]
        self._device = device
        self._pool: dict[int, list[_Pinned]] = {}
        # Copies back that nothing has waited for: a pass that ends early drops its values, and
        # their memory must not be used anew while it is written.
        self._arriving: dict[torch.cuda.Event, list[Tensor]] = {}

    def offload(self, blocks: Iterable[Block]) -> None:
        self._forget_arrived()
        blocks = self._on_device(blocks)
        self._to_host.wait_stream(self._compute())
        with torch.cuda.stream(self._to_host):
            copies = [(block, self._copy_to_host(_bytes_of(block))) for block in blocks]
            written = self._to_host.record_event()
        for block, pieces in copies:
            block.host = _HostCopy(pieces, written)

    def release(self, blocks: Iterable[Block]) -> None:
        compute = self._compute()
        blocks = self._on_device(blocks)
        for written in {block.host.written for block in blocks}:
            compute.wait_event(written)
        for block in blocks:
            block.storage = None

    def prefetch(self, blocks: Iterable[Block]) -> Callable[[], None] | None:
        self._forget_arrived()
        blocks = self._on_device(blocks)
        if not blocks:
            return None
        arriving = [_allocate(block) for block in blocks]
        # The memory's last use is over before it is written; so is the copy to the host, which the
        # compute stream has waited for when the block was released.
        self._to_device.wait_stream(self._compute())
        with torch.cuda.stream(self._to_device):
            for block, memory in zip(blocks, arriving, strict=True):
                self._copy_to_device(block.host.pieces, memory)
            complete = self._to_device.record_event()
        for block in blocks:
            for pinned in block.host.pieces:
                pinned.read = complete
                self._pool.setdefault(pinned.memory.nbytes, []).append(pinned)
            block.host = None
        self._arriving[complete] = arriving

        def wait() -> None:
            self._compute().wait_event(complete)
            self._arriving.pop(complete, None)

        return wait

    def _compute(self) -> torch.cuda.Stream:
        # In a backward, that of the forward: autograd's thread sets it.
        return torch.cuda.current_stream(self._device)

    def _on_device(self, blocks: Iterable[Block]) -> list[Block]:
        # Kernels of attention save the state of their random numbers on the host.
        return [block for block in blocks if block.device == self._device]

    def _forget_arrived(self) -> None:
        for complete in list(self._arriving):
            if complete.query():  # type: ignore[no-untyped-call, unused-ignore]
                del self._arriving[complete]

    def _copy_to_host(self, memory: Tensor) -> list[_Pinned]:
        taken = [self._take(size) for size in pieces_of(memory.nbytes)]
        for read in {pinned.read for pinned in taken if pinned.read is not None}:
            self._to_host.wait_event(read)
        for pinned, part in _parts(taken, memory):
            pinned.memory[: part.nbytes].copy_(part, non_blocking=True)
        return taken

    def _copy_to_device(self, pieces: list[_Pinned], memory: Tensor) -> None:
        for pinned, part in _parts(pieces, memory):
            part.copy_(pinned.memory[: part.nbytes], non_blocking=True)

    def _take(self, size: int) -> _Pinned:
        free = self._pool.get(size)
        if free:
            return free.pop()
        # The device is named: torch's default one may be the GPU.
        return _Pinned(torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True))


def _parts(pieces: Iterable[_Pinned], memory: Tensor) -> Iterator[tuple[_Pinned, Tensor]]:
    begin = 0
    for pinned in pieces:
        part = memory[begin : begin + pinned.memory.nbytes]
        yield pinned, part
        begin += part.nbytes


def transfers_for(device: torch.device) -> Transfers:
    return CudaTransfers(device) if device.type == "cuda" else HostTransfers()

"""Copies of blocks to the host and back: on two CUDA streams, or at once where there is no GPU.

No call waits on the host. Memory stays ordered without ``record_stream``: blocks are allocated and
freed on the compute stream, which waits for a copy before it frees what was read; the stream of a
copy back waits for the compute stream before it writes memory that the compute stream has freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from stowage.torch.values import Block


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


@dataclass(slots=True)
class _Pinned:
    """Pinned host memory, and the copies out of it that must end before it is written again."""

    memory: Tensor
    read: torch.cuda.Event | None = None
    written: torch.cuda.Event | None = None


class CudaTransfers:
    """For one GPU. The pinned memory is kept for the next step."""

    def __init__(self, device: torch.device) -> None:
        self._to_host = torch.cuda.Stream(device)  # type: ignore[no-untyped-call, unused-ignore]
        self._to_device = torch.cuda.Stream(device)  # type: ignore[no-untyped-call, unused-ignore]
        self._device = device
        self._pool: dict[int, list[_Pinned]] = {}

    def offload(self, blocks: Iterable[Block]) -> None:
        self._to_host.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._to_host):
            for block in blocks:
                pinned = self._take(block.bytes)
                if pinned.read is not None:
                    self._to_host.wait_event(pinned.read)
                pinned.memory.copy_(_bytes_of(block), non_blocking=True)
                pinned.written = self._to_host.record_event()
                block.host = pinned

    def release(self, blocks: Iterable[Block]) -> None:
        compute = torch.cuda.current_stream(self._device)
        for block in blocks:
            compute.wait_event(block.host.written)
            block.storage = None

    def prefetch(self, blocks: Iterable[Block]) -> Callable[[], None] | None:
        blocks = list(blocks)
        compute = torch.cuda.current_stream(self._device)
        arrived = [_allocate(block) for block in blocks]
        self._to_device.wait_stream(compute)
        with torch.cuda.stream(self._to_device):
            for block, memory in zip(blocks, arrived, strict=True):
                pinned: Any = block.host
                self._to_device.wait_event(pinned.written)
                memory.copy_(pinned.memory, non_blocking=True)
                pinned.read = self._to_device.record_event()
                self._pool.setdefault(block.bytes, []).append(pinned)
                block.host = None
        complete = self._to_device.record_event()

        def wait() -> None:
            torch.cuda.current_stream(self._device).wait_event(complete)

        return wait

    def _take(self, size: int) -> _Pinned:
        free = self._pool.get(size)
        if free:
            return free.pop()
        return _Pinned(torch.empty(size, dtype=torch.uint8, pin_memory=True))


def transfers_for(device: torch.device) -> Transfers:
    return CudaTransfers(device) if device.type == "cuda" else HostTransfers()

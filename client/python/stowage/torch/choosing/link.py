"""Measures the link between a GPU and host memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from stowage.model import Platform
from stowage.torch.choosing.budget import device_memory

_BYTES = 64 << 20


def measure_link(platform: Platform, device: torch.device) -> Platform:
    """`platform` with the link's rates and half of the host's memory; as it is on a CPU."""
    if device.type != "cuda":
        return platform
    # The device is named: torch's default one may be the GPU.
    on_host = torch.empty(_BYTES, dtype=torch.uint8, device="cpu", pin_memory=True)
    other = torch.empty(_BYTES, dtype=torch.uint8, device="cpu", pin_memory=True)
    on_device = torch.empty(_BYTES, dtype=torch.uint8, device=device)
    written = torch.empty_like(on_device)
    streams = [torch.cuda.Stream(device) for _ in range(2)]  # type: ignore[no-untyped-call, unused-ignore]

    def to_host() -> None:
        with torch.cuda.stream(streams[0]):
            on_host.copy_(on_device, non_blocking=True)

    def to_device() -> None:
        with torch.cuda.stream(streams[1]):
            written.copy_(other, non_blocking=True)

    def both() -> None:
        to_host()
        to_device()

    def one_byte() -> None:
        with torch.cuda.stream(streams[0]):
            on_host[:1].copy_(on_device[:1], non_blocking=True)

    latency = min(_seconds(one_byte, device) for _ in range(5))
    offload, prefetch, together = (_median(copy, device) for copy in (to_host, to_device, both))
    return replace(
        platform,
        offload_bytes_per_second=_BYTES / max(offload - latency, offload / 2),
        prefetch_bytes_per_second=_BYTES / max(prefetch - latency, prefetch / 2),
        transfer_latency_seconds=latency,
        # Together they take the longer of the two times where the link is full duplex. In doubt it
        # is shared: a schedule for such a link loses little on the other kind.
        half_duplex=together > max(offload, prefetch) + 0.3 * min(offload, prefetch),
        host_memory_bytes=_pinnable_bytes(),
    )


def _pinnable_bytes() -> int:
    """Half of the host's memory, shared by the processes of a job here that torchrun counts.

    Pinned memory is never paged out: more could leave the host without any.
    """
    processes = os.environ.get("LOCAL_WORLD_SIZE", "")
    return device_memory(torch.device("cpu")) // 2 // max(1, int(processes or 1))


def _median(copy: Callable[[], None], device: torch.device) -> float:
    copy()
    return statistics.median(_seconds(copy, device) for _ in range(5))


def _seconds(copy: Callable[[], None], device: torch.device) -> float:
    torch.cuda.synchronize(device)
    begin = time.perf_counter()
    copy()
    torch.cuda.synchronize(device)
    return time.perf_counter() - begin

"""How long operators take on a GPU: as their products, their traffic or a launch, the longest.

The roofline model, Williams, Waterman and Patterson, 2009.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from stowage.estimates.hardware.gpus import Gpu
from stowage.estimates.live_bytes import LiveBytes
from stowage.torch.measuring.meter import MemoryMeter, Span, without_collecting
from stowage.torch.measuring.workload import Clock, Workload

# What kernels reach of what the maker states.
_OF_PRODUCTS = 0.7
_OF_TRAFFIC = 0.8
_LAUNCH_SECONDS = 4e-6


class Roofline(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a program: the seconds that its operators take, one after the other."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.seconds = 0.0
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # so that it is called with the tensors inside
        output = func(*args, **(kwargs or {}))
        if not _has_no_kernel(func):
            self.seconds += self._seconds_of(func, args, kwargs or {}, output)
        return output

    def _seconds_of(self, func: Any, args: Any, kwargs: Any, output: Any) -> float:
        tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
        results = [part for part in tree_leaves(output) if isinstance(part, Tensor)]
        made = sum(map(_bytes_of, results))
        most_read = made if func._opname in _LOOKUPS else 1 << 62  # of the table, a few rows
        traffic = made + sum(min(_bytes_of(tensor), most_read) for tensor in tensors)
        seconds = traffic / (_OF_TRAFFIC * self._gpu.bytes_per_second)
        count = _COUNTS.get(func._overloadpacket)
        if count is not None:
            flops = count(*args, **kwargs, out_val=output)
            seconds = max(seconds, flops / (_OF_PRODUCTS * self._rate_of(func, tensors)))
        return max(_LAUNCH_SECONDS, seconds)

    def _rate_of(self, func: Any, tensors: list[Tensor]) -> float:
        kind = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
        if kind is torch.float16:
            return self._gpu.float16_flops
        if kind is torch.bfloat16:
            return self._gpu.bfloat16_flops
        is_convolution = "convolution" in func.name()
        return self._gpu.tf32_flops if is_convolution else self._gpu.float32_flops


def _of_backward_of_convolution(
    gradient: Tensor, value: Tensor, weight: Tensor, *rest: Any, out_val: Any
) -> int:
    """torch's own count takes grouped ones for dense ones."""
    *_, transposed, _, _, wanted = rest
    positions = value.numel() if transposed else gradient.numel()
    return int(sum(wanted[:2]) * 2 * positions * weight.numel() // weight.shape[0])


_COUNTS: dict[Any, Any] = {
    **flop_registry,
    torch.ops.aten.convolution_backward: _of_backward_of_convolution,
}


def _has_no_kernel(func: Any) -> bool:
    """Of views, and of what only makes memory."""
    return func.is_view or func.namespace == "prim" or func._opname in _MAKERS


# fmt: off
_MAKERS = frozenset([
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view",
    "_reshape_alias", "lift_fresh",
])
# fmt: on


_LOOKUPS = frozenset(["embedding", "index", "index_select", "gather"])


def _bytes_of(tensor: Tensor) -> int:
    """What is read of it: of one that is expanded, what there is."""
    size = tensor.numel() * tensor.element_size()
    return min(size, tensor.untyped_storage().nbytes()) if tensor.layout == torch.strided else size


class RooflineClock(Clock):
    """Seconds of a `Roofline`, in the place of those of a device."""

    def __init__(self, roofline: Roofline) -> None:
        super().__init__(torch.device("cpu"))
        self._roofline = roofline

    def now(self) -> Any:
        return self._roofline.seconds

    def idle(self) -> Any:
        return self._roofline.seconds


class LiveMeter(MemoryMeter):
    """Spans of a `LiveBytes`, which do not nest, in the place of those of a device."""

    def __init__(self, live: LiveBytes) -> None:
        super().__init__(torch.device("cpu"))
        self._live = live

    def __enter__(self) -> LiveMeter:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        before = self._live.bytes
        self._live.restart_peak()
        with without_collecting():
            yield
        self.spans[name] = Span(before, self._live.peak_bytes, self._live.bytes)


class EstimatedWork(Workload):
    """A step of stand-ins, measured by what it would take on a GPU."""

    def __init__(self, live: LiveBytes, roofline: Roofline, *step: Any, **more: Any) -> None:
        super().__init__(*step, **more)
        self._live, self._roofline = live, roofline

    def meter(self) -> MemoryMeter:
        return LiveMeter(self._live)

    def clock(self) -> Clock:
        return RooflineClock(self._roofline)

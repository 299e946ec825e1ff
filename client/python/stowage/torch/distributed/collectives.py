"""Refuses models whose layers talk to other processes by code of their own.

Each process would repeat that by its own times, and collectives would meet the wrong ones.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from stowage.torch.distributed.sharding import (
    has_others,
    is_a,
    is_tensor_parallel,
    refusal,
    wrapper_elsewhere,
)

_CHECKPOINT = "call torch.utils.checkpoint in its layers in place of stowage.fit"
_COLLECTIVES = {"c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"}


@contextlib.contextmanager
def without_collectives(model: nn.Module) -> Iterator[None]:
    """Refuses what runs inside as soon as it would talk to other processes, in place of that.

    Tensor parallel layers may, since all processes run the same.
    """
    if not has_others() or is_tensor_parallel(model):
        yield
        return
    with ModuleTracker() as tracker, _Refusing(model, tracker):
        yield


class _Refusing(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    supports_higher_order_operators = True

    def __init__(self, model: nn.Module, tracker: ModuleTracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._model = model
        self._tracker = tracker

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        has_parts = any(is_a(kind, "DTensor") for kind in types)
        talks = getattr(func, "namespace", "") in _COLLECTIVES
        if (has_parts or talks) and not _is_of_fully_shard():
            if has_parts:
                raise refusal(self._name(), "computes with DTensors", _CHECKPOINT)
            if self._tracker.is_bw and wrapper_elsewhere(self._model) is not None:
                raise refusal(
                    "",
                    "is wrapped in DistributedDataParallel, which waits for the backward of an "
                    f"earlier forward, or its layers talk to other processes ({func})",
                    "run that backward, or such forwards under torch.no_grad(), before stowage.fit",
                )
            raise refusal(
                self._name(),
                f"talks to other processes ({func}) in its "
                + ("backward" if self._tracker.is_bw else "forward")
                + ", and each would repeat it by a schedule of its own",
                "call torch.utils.checkpoint in these layers in place of stowage.fit; if it is "
                "the loss that does, pass a loss= that does not",
            )
        return func(*args, **(kwargs or {}))

    def _name(self) -> str:
        """Of the innermost module that runs."""
        begin = f"{type(self._model).__name__}."
        inside = [path for path in self._tracker.parents if path.startswith(begin)]
        return max(inside, key=len, default="").removeprefix(begin)


def _is_of_fully_shard() -> bool:
    """Whether a hook of fully_shard is what runs."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("torch.distributed.fsdp."):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False

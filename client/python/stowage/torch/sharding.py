"""Refuses models that are spread over several processes, by name and before anything runs.

Each process measures and plans for itself. Where parameters are gathered around a call, or layers
talk to other processes, each would repeat layers of its own choice, and their collectives would
meet the wrong ones.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from stowage.errors import NotAChainError

_CHECKPOINT = "call torch.utils.checkpoint in its layers in place of stowage.fit"
_WRAP_LATER = "fit the model and wrap it then, as in DistributedDataParallel(model)"

# By class, among a module's bases: what it does, and the remedy. By name, so that nothing of
# torch.distributed has to be imported; the first that fits counts.
_MODULES = {
    "DistributedDataParallel": ("is wrapped in DistributedDataParallel", _WRAP_LATER),
    "DataParallel": (
        "is wrapped in DataParallel, whose copies would share one schedule",
        "use DistributedDataParallel: " + _WRAP_LATER,
    ),
    "FSDPModule": ("is sharded by fully_shard (FSDP2)", _CHECKPOINT),
    "FullyShardedDataParallel": ("is sharded by FullyShardedDataParallel (FSDP1)", _CHECKPOINT),
}
_TENSORS = {
    "DTensor": (
        "is a DTensor, as parallelize_module and distribute_tensor make them",
        _CHECKPOINT,
    ),
    "FlatParameter": ("is sharded by FullyShardedDataParallel (FSDP1)", _CHECKPOINT),
}
_COLLECTIVES = {"c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"}


def refuse_sharded(model: nn.Module) -> None:
    """Raises `NotAChainError` that names the first part that is sharded or wrapped."""
    for name, module in model.named_modules():
        _refuse(name, type(module), _MODULES)
        tensors = [*module._parameters.items(), *module._buffers.items()]
        for of_tensor, tensor in tensors:
            path = f"{name}.{of_tensor}" if name else of_tensor
            _refuse(path, type(tensor), _TENSORS)
            # What the original parameters are where FSDP1 keeps them (use_orig_params).
            if getattr(tensor, "_fsdp_flattened", False):
                raise _error(path, *_TENSORS["FlatParameter"])
        if isinstance(module, nn.SyncBatchNorm) and module.training and _has_others():
            raise _error(
                name,
                "is a SyncBatchNorm, which waits for the other processes in each run",
                "use BatchNorm, or torch.utils.checkpoint in parts without it, in place of "
                "stowage.fit",
            )
    if _is_initialized():
        _refuse_wrapped_elsewhere(model)


def _refuse(name: str, kind: type, table: dict[str, tuple[str, str]]) -> None:
    bases = {base.__name__ for base in kind.__mro__}
    for base, (what, remedy) in table.items():
        if base in bases:
            raise _error(name, what, remedy)


def _error(name: str, what: str, remedy: str) -> NotAChainError:
    return NotAChainError(f"{name or 'the model'} {what}: {remedy}")


def _refuse_wrapped_elsewhere(model: nn.Module) -> None:
    """DistributedDataParallel leaves no mark on the module that it wraps."""
    modules = set(model.modules())
    if not any(_wrappers(modules)):
        return
    gc.collect()  # a wrapper is part of cycles, and may be one that nobody has any more
    for wrapper in _wrappers(modules):
        names = {module: name for name, module in model.named_modules()}
        name = names.get(wrapper.module, "")
        raise _error(name, *_MODULES["DistributedDataParallel"])


def _wrappers(modules: set[nn.Module]) -> Iterable[Any]:
    for thing in gc.get_objects():
        # By its type: asking the object may run code of its class.
        if issubclass(type(thing), nn.parallel.DistributedDataParallel):
            wrapped = thing.__dict__.get("_modules", {}).get("module")
            if wrapped is not None and not modules.isdisjoint(wrapped.modules()):
                yield thing


def _is_initialized() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _has_others() -> bool:
    return _is_initialized() and torch.distributed.get_world_size() > 1


@contextlib.contextmanager
def without_collectives(model: nn.Module) -> Iterator[None]:
    """Refuses what runs inside as soon as it would talk to other processes, in place of that."""
    if not _has_others():
        yield
        return
    with ModuleTracker() as tracker, _Refusing(type(model).__name__, tracker):
        yield


class _Refusing(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    supports_higher_order_operators = True

    def __init__(self, root: str, tracker: ModuleTracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._root = root
        self._tracker = tracker

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for kind in types:
            if any(base.__name__ == "DTensor" for base in kind.__mro__):
                raise _error(self._name(), "computes with DTensors", _CHECKPOINT)
        if getattr(func, "namespace", "") in _COLLECTIVES:
            raise _error(
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
        begin = f"{self._root}."
        inside = [path for path in self._tracker.parents if path.startswith(begin)]
        return max(inside, key=len, default="").removeprefix(begin)

"""Counts the bytes of the tensors that live while a program runs, by what they are for."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
)
from torch.utils._pytree import tree_leaves

from stowage.errors import StowageError

ACTIVATIONS = "activations"


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Sees every storage that an operator makes, until nothing refers to it any more.

    Storages are counted whole and once, however many tensors share them, and anew when they are
    resized. What a kernel takes while it runs, and gives back, is not seen. Of tensors around
    others, as DTensors, those inside count.

    Args:
        place: names what runs; asked at each new peak.
    """

    def __init__(self, place: Callable[[str], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.by_purpose: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()  # by purpose, when the sum was the highest
        self.peak_place = ""
        self._place = place
        self._purpose = ACTIVATIONS  # of what is made now
        self._resizers: list[Any] = []
        self._sum = self._peak_sum = 0
        self._storages: dict[int, tuple[str, int]] = {}  # purpose and bytes

    @property
    def bytes(self) -> int:
        return self._sum

    @property
    def peak_bytes(self) -> int:
        return self._peak_sum

    def restart_peak(self) -> None:
        """From now on the peak is that of what follows."""
        self.peak, self._peak_sum, self.peak_place = Counter(self.by_purpose), self._sum, ""

    def count(self, tensors: Iterable[Tensor | None], purpose: str) -> None:
        """Counts these, which may be counted already, as bytes of that purpose."""
        for tensor in tensors:
            for part in plain_parts_of(tensor):
                self._count(part.untyped_storage(), purpose)

    @contextlib.contextmanager
    def made_for(self, purpose: str) -> Iterator[None]:
        """What operators make inside is for this, in place of activations."""
        former, self._purpose = self._purpose, purpose
        try:
            yield
        finally:
            self._purpose = former

    def __enter__(self) -> Any:
        resize: Any = torch.UntypedStorage.resize_  # which no mode sees; FSDP2 frees weights by it

        def resized(storage: torch.UntypedStorage, size: int) -> Any:
            found = resize(storage, size)
            self._resize(storage)
            return found

        self._resizers.append(resize)
        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign, assignment]
        return super().__enter__()  # type: ignore[no-untyped-call, unused-ignore]

    def __exit__(self, *error: Any) -> Any:
        torch.UntypedStorage.resize_ = self._resizers.pop()  # type: ignore[method-assign]
        return super().__exit__(*error)  # type: ignore[no-untyped-call, unused-ignore]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # so that it is called with those inside
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor) and _is_foreign(tensor):
                raise StowageError(
                    f"{func} is called with a parameter that is none of the model's, at "
                    f"{self._place(str(func))}: register it in the model, or pass the loss as a "
                    "module"
                )
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor) and _has_storage(tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._storages:
                    self._count(storage, self._purpose)
                    self._see_peak(str(func))
        return output

    def _see_peak(self, what: str) -> None:
        if self._sum > self._peak_sum:
            self._peak_sum, self.peak = self._sum, Counter(self.by_purpose)
            self.peak_place = self._place(what)

    def _count(self, storage: torch.UntypedStorage, purpose: str) -> None:
        key = storage._cdata
        found = self._storages.get(key)
        if found is None:
            size = storage.nbytes()
            self._sum += size
            # What a finalizer has, lives as long as the storage: weights may be the caller's.
            weakref.finalize(storage, _drop, weakref.ref(self), key)
        else:
            former, size = found
            self.by_purpose[former] -= size
        self._storages[key] = purpose, size
        self.by_purpose[purpose] += size

    def _resize(self, storage: torch.UntypedStorage) -> None:
        found = self._storages.get(storage._cdata)
        if found is None:
            return
        purpose, former = found
        size = storage.nbytes()
        self._storages[storage._cdata] = purpose, size
        self.by_purpose[purpose] += size - former
        self._sum += size - former
        self._see_peak("resize_")

    def drop(self, key: int) -> None:
        purpose, size = self._storages.pop(key)
        self.by_purpose[purpose] -= size
        self._sum -= size


def _drop(live: weakref.ref[LiveBytes], key: int) -> None:
    counter = live()
    if counter is not None:
        counter.drop(key)


def _is_foreign(tensor: Tensor) -> bool:
    """Whether it is a real one, which would get a gradient without content."""
    return tensor.requires_grad and tensor.is_leaf and not isinstance(tensor, FakeTensor)


def plain_parts_of(tensor: Tensor | None) -> list[Tensor]:
    """The tensors inside of it, or itself, that have a storage."""
    if tensor is None:
        return []
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]  # a DTensor's mesh is among them
        return [p for part in inner if isinstance(part, Tensor) for p in plain_parts_of(part)]
    return [tensor] if _has_storage(tensor) else []


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """What this process has of them."""
    return sum(part.nbytes for tensor in tensors for part in plain_parts_of(tensor))


def _has_storage(tensor: Tensor) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # as of sparse tensors
        return False
    return True

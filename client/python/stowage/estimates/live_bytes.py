"""Counts the bytes of the tensors that live while a program runs, by what they are for."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stowage.errors import StowageError

ACTIVATIONS = "activations"


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Sees every storage that an operator makes, until nothing refers to it any more.

    Storages are counted whole and once, however many tensors share them. What a kernel takes while
    it runs, and gives back, is not seen.

    Args:
        place: names what runs; asked at each new peak.
    """

    def __init__(self, place: Callable[[str], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.by_purpose: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()  # by purpose, when the sum was the highest
        self.peak_place = ""
        self._place = place
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
            if tensor is not None and _has_storage(tensor):
                self._count(tensor, purpose)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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
                self._see(tensor, func)
        return output

    def _see(self, tensor: Tensor, func: Any) -> None:
        if tensor.untyped_storage()._cdata in self._storages:
            return
        self._count(tensor, ACTIVATIONS)
        if self._sum > self._peak_sum:
            self._peak_sum, self.peak = self._sum, Counter(self.by_purpose)
            self.peak_place = self._place(str(func))

    def _count(self, tensor: Tensor, purpose: str) -> None:
        storage = tensor.untyped_storage()
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


def _has_storage(tensor: Tensor) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # as of sparse tensors
        return False
    return True

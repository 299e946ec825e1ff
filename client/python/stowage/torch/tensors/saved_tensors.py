"""Hooks on what autograd saves in a layer: the first run takes notes, replays are compared to them.

Parameters and the layer's arguments stay in the caller's graph. All else becomes a `Handle` there,
which the pass fills when the schedule says so. Notes tell, of each saved tensor in order, which
parameter or argument it is, or else its size, type and device: where a replay saves something else,
it has not run as the layer did, and its gradients would be others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from stowage.torch.tensors.storages import (
    PLAIN_TYPES,
    Held,
    InputView,
    Saved,
    has_plain_storage,
    parts_of,
    storage_key,
)

# What a saved tensor is, the number or id of that, its size, type and device.
Note = tuple[str, int, Any, Any, Any]

_PARAMETER = "a parameter"
_ARGUMENT = "an argument"
INPUT = "the input"
MADE = "a tensor"


class Holder(Protocol):
    """Has what handles stand for."""

    def take(self, stage: int, number: int) -> Tensor: ...


class Handle:
    """Stands in autograd's graph for a tensor that a stage saves."""

    __slots__ = ("_holder", "_number", "_stage")

    def __init__(self, holder: Holder, stage: int, number: int) -> None:
        self._holder = holder
        self._stage = stage
        self._number = number

    def get(self) -> Tensor:
        return self._holder.take(self._stage, self._number)


class _Owners:
    """The storages of a run's arguments."""

    def __init__(self, tensors: Sequence[Tensor], chain: Sequence[tuple[int, int]]) -> None:
        self._owners: dict[int, tuple[str, int]] = {}
        for slot, tensor in enumerate(tensors):
            for part in parts_of(tensor):
                self._owners[storage_key(part)] = _ARGUMENT, slot
        for slot, index in chain:
            for part in parts_of(tensors[slot]):
                self._owners[storage_key(part)] = INPUT, index

    def note_of(self, tensor: Tensor) -> Note:
        if type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided:
            owner = self._owners.get(tensor.untyped_storage()._cdata)
        else:
            parts = parts_of(tensor)
            owner = self._owners.get(storage_key(parts[0])) if parts else None
        if owner is not None:
            if owner[0] is _ARGUMENT or has_plain_storage(tensor):
                return *owner, tensor.shape, tensor.dtype, None
            # Held as it is, since no view of another input can stand for it.
            return MADE, 0, tensor.shape, tensor.dtype, tensor.device
        root = tensor._base if tensor._is_view() else tensor
        if (
            root is not None
            and root.is_leaf
            and (root.requires_grad or isinstance(root, nn.Parameter))
        ):
            return _PARAMETER, id(root), tensor.shape, tensor.dtype, None
        return MADE, 0, tensor.shape, tensor.dtype, tensor.device


class Part(Protocol):
    """Has what a run keeps that saves in part."""

    def has(self, tensor: Tensor) -> bool: ...


class Hooks:
    """What autograd is told while a layer runs."""

    def __init__(
        self,
        layer: str,
        tensors: Sequence[Tensor],
        chain: Sequence[tuple[int, int]],
        saves: bool,
        part: Part | None,
    ) -> None:
        self._layer = layer
        self._owners = _Owners(tensors, chain)
        self._saves = saves
        self._part = part
        self._saved: list[Saved] = []

    def __enter__(self) -> None:
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
        del self._hooks  # a cycle

    def take_saved(self) -> list[Saved] | None:
        """What was saved, by handle; once, since autograd's graph keeps the hooks."""
        saved, self._saved = self._saved, []
        return saved if self._saves else None

    def _pack(self, tensor: Tensor) -> Any:
        raise NotImplementedError

    def _unpack(self, packed: Any) -> Tensor:
        raise NotImplementedError

    def _keep(self, tensor: Tensor, note: Note) -> None:
        if not self._saves:
            self._saved.append(None)
        elif note[0] is INPUT:
            self._saved.append(InputView.of(tensor, note[1]))
        elif self._part is None or self._part.has(tensor):
            self._saved.append(Held(tensor, self._layer))
        else:
            self._saved.append(None)


class FirstRun(Hooks):
    """Hooks around a layer's first run.

    Args:
        tensors: the arguments', of which `chain` has the slots of the chain's value, and the
            indices in that.
        saves: keeps what is saved, by handle; of that, with `part`, what this has.
    """

    def __init__(
        self,
        holder: Holder,
        stage: int,
        layer: str,
        tensors: Sequence[Tensor],
        chain: Sequence[tuple[int, int]],
        *,
        saves: bool,
        part: Part | None = None,
    ) -> None:
        super().__init__(layer, tensors, chain, saves, part)
        self.notes: list[Note] = []
        self._holder = holder
        self._stage = stage

    def _pack(self, tensor: Tensor) -> Held | Handle:
        note = self._owners.note_of(tensor)
        self.notes.append(note)
        if note[0] is _PARAMETER or note[0] is _ARGUMENT:
            return Held(tensor, self._layer)
        self._keep(tensor, note)
        return Handle(self._holder, self._stage, len(self._saved) - 1)

    def _unpack(self, packed: Held | Handle) -> Tensor:
        return packed.get()


class Complete(BaseException):
    """Ends a replay that has saved all its backward reads. Layers may catch every `Exception`."""


class OtherRunError(RuntimeError):
    """A replay does not save what the first run has saved."""


class ReplayRun(Hooks):
    """Hooks around a replay, which must save what the first run has saved.

    Args:
        tensors, chain, saves, part: as of `FirstRun`.
        stops: raises `Complete` out of the layer after the last tensor that it has to save.
        held: of a stage that was saved in part, what is there, by handle.
    """

    def __init__(
        self,
        notes: Sequence[Note],
        layer: str,
        tensors: Sequence[Tensor],
        chain: Sequence[tuple[int, int]],
        *,
        saves: bool,
        stops: bool,
        part: Part | None = None,
        held: Sequence[Saved] = (),
    ) -> None:
        super().__init__(layer, tensors, chain, saves, part)
        self.is_complete = False  # and has raised `Complete`
        self._notes = notes
        self._held = held
        self._end = self._last() if stops and held else len(notes) if stops else -1
        self._count = 0
        self._problem = ""
        self.is_needed = self._end != 0

    @property
    def is_over(self) -> bool:
        """Whether what the layer still does is of no use."""
        return self.is_complete or bool(self._problem)

    def take_saved(self) -> list[Saved] | None:
        saved = super().take_saved()
        return saved if saved is None else [*saved, *self._held[len(saved) :]]

    def _last(self) -> int:
        """How many of the notes are those up to the last tensor that is not there."""
        end = handle = 0
        for count, note in enumerate(self._notes, 1):
            if note[0] is MADE or note[0] is INPUT:
                if self._held[handle] is None:
                    end = count
                handle += 1
        return end

    def refuse(self, what: str) -> NoReturn:
        """Raises since the layer does `what`, and did not in the first run."""
        self._problem = self._problem or what
        self.check()
        raise AssertionError

    def check(self) -> None:
        """Raises where the replay was another run than the first: also if the layer hid it."""
        if not self._problem and not self.is_complete and self._count < len(self._notes):
            self._problem = f"saves {self._count} tensors in place of {len(self._notes)}"
        if self._problem:
            raise OtherRunError(
                f"{self._layer} does not run as it did in the forward: it {self._problem}. What it "
                "reads has changed since, or it draws from a generator that is not torch's: keep "
                "that as it is until the backward, or call stowage.unfit(model)"
            )

    def compare(self, tensor: Tensor) -> Note:
        """Raises where the layer saves the tensor and saved another one in the first run."""
        number = self._count
        if self._problem or number == len(self._notes):
            self.refuse(f"saves more than {number} tensors")
        note = self._owners.note_of(tensor)
        if note != self._notes[number]:
            self.refuse(f"saves {_text(note)} in place of {_text(self._notes[number])}")
        self._count += 1
        return note

    def end_where_complete(self) -> None:
        """Raises `Complete` once the last tensor has been saved, where a replay may end then."""
        if self._count == self._end:
            self.is_complete = True
            raise Complete

    def _pack(self, tensor: Tensor) -> Any:
        if self.is_complete:
            return None  # what runs while the layer ends
        note = self.compare(tensor)
        if note[0] is MADE or note[0] is INPUT:
            self._keep_or_hold(tensor, note)
        self.end_where_complete()
        return None

    def _keep_or_hold(self, tensor: Tensor, note: Note) -> None:
        handle = len(self._saved)
        held = self._held[handle] if self._held else None
        if held is None:
            self._keep(tensor, note)
        else:
            self._saved.append(held)

    def _unpack(self, packed: Any) -> Tensor:
        raise RuntimeError(
            f"a backward begins at a tensor that left {self._layer} while it was recomputed: take "
            "such tensors before the backward, or call stowage.unfit(model)"
        )


def _text(note: Note) -> str:
    what, _, shape, dtype, device = note
    where = "" if device is None else f" on {device}"
    return f"{what} of {list(shape)} {str(dtype).removeprefix('torch.')}{where}"

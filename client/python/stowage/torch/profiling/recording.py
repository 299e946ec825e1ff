"""Records the operators that a layer's forward calls: what they take, keep and are read for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from stowage.torch.measuring.walk import Arguments, Drops
from stowage.torch.measuring.workload import Workload
from stowage.torch.tensors.kept_results import Mode, Way, has_no_number
from stowage.torch.tensors.saved_tensors import INPUT, Note
from stowage.torch.tensors.storages import has_plain_storage, storage_key


class UnsuitedError(BaseException):
    """The layer cannot be saved in part. Layers may catch every `Exception`."""


@dataclass(slots=True)
class Recorded:
    """One call of an operator."""

    operator: Any
    seconds: float = 0.0
    can_keep: bool = False
    outputs: dict[int, int] = field(default_factory=dict)  # bytes, by storage
    saved: set[int] = field(default_factory=set)  # the storages that the backward reads
    saves: bool = False  # a backward reads something of it
    # That is made outside of the layer, and is there once a rerun has come to this.
    saves_argument: bool = False
    is_read: bool = False  # by another operator
    joined: int | None = None  # writes in place into the output of this one, as the first to use it
    filled_by: str = ""  # the first that is joined to it

    @property
    def name(self) -> str:
        """Without its namespace and overload: "addmm"."""
        return _name_of(self.operator)

    def cost(self) -> dict[str, Any]:
        """For `stowage_ways` of client/c/stowage.h."""
        inner = sum(size for key, size in self.outputs.items() if key in self.saved)
        is_empty = self.name.startswith("empty")
        return {
            # Memory without content is only made for what fills it.
            "name": self.filled_by if is_empty and self.filled_by else self.name,
            "seconds": self.seconds,
            "kept": self.can_keep,
            "inner_bytes": inner if self.can_keep else 0,
            "output_bytes": sum(self.outputs.values()) - inner if self.can_keep else 0,
            "saves": self.saves,
            "saves_argument": self.saves_argument,
        }

    def form(self) -> tuple[Any, ...]:
        """What is equal in equal layers."""
        return (self.operator, self.can_keep, self.saves, self.joined, *self.outputs.values())


class Recorder(Mode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a layer's forward."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.operators: list[Recorded] = []
        self._device = work.device
        self._clock = work.clock()
        self._makers: dict[int, int] = {}  # by storage, the operator that has written it last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if has_no_number(func, args):
            return func(*args, **(kwargs or {}))
        if not isinstance(func, OpOverload) or func.namespace in _COLLECTIVES:
            raise UnsuitedError(f"it calls {func}")
        begin = self._clock.idle()
        output = func(*args, **(kwargs or {}))
        recorded = Recorded(func, self._clock.seconds(begin, self._clock.idle()))
        self.operators.append(recorded)
        written, read = _arguments_of(func, args, kwargs or {})
        if not all(map(has_plain_storage, [*written, *read, *_tensors_in(output)])):
            raise UnsuitedError(f"it calls {func} on tensors that are not plain")
        self._note_reads(read, output)
        for tensor in written:
            self._note_write(tensor, recorded, is_first=tensor is args[0] and len(written) == 1)
        if not written:
            self._note_outputs(output, [*read], recorded)
        return output

    def note_saved(self, tensor: Tensor) -> None:
        """Of what autograd saves, and is neither a parameter nor an argument."""
        if not has_plain_storage(tensor):
            raise UnsuitedError(f"it saves {type(tensor).__name__}")
        key = storage_key(tensor)
        maker = self._makers.get(key)
        if maker is not None:
            self.operators[maker].saves = True
            self.operators[maker].saved.add(key)
        elif self.operators:
            self.operators[-1].saves = self.operators[-1].saves_argument = True

    def _note_reads(self, tensors: list[Tensor], output: Any) -> None:
        views = {storage_key(tensor) for tensor in _tensors_in(output)}
        for tensor in tensors:
            key = storage_key(tensor)
            if key in self._makers and key not in views:
                self.operators[self._makers[key]].is_read = True

    def _note_write(self, tensor: Tensor, recorded: Recorded, *, is_first: bool) -> None:
        key = storage_key(tensor)
        maker = self._makers.get(key)
        if maker is None:  # an argument, or a buffer
            return
        leader = self.operators[maker]
        if is_first and leader.can_keep and not leader.is_read:
            recorded.joined = maker
            leader.filled_by = leader.filled_by or _name_of(recorded.operator).rstrip("_")
            leader.seconds += recorded.seconds
            recorded.seconds = 0.0
            return
        leader.can_keep = False
        self._makers[key] = len(self.operators) - 1

    def _note_outputs(self, output: Any, arguments: list[Tensor], recorded: Recorded) -> None:
        parts = output if isinstance(output, tuple) else (output,)
        tensors = [part for part in parts if isinstance(part, Tensor)]
        others = {storage_key(tensor) for tensor in arguments}
        keys = {storage_key(tensor) for tensor in tensors}
        recorded.can_keep = (
            bool(tensors)
            and keys.isdisjoint(others)
            and not isinstance(output, list)
            # Attention on a GPU returns the state of a generator, on the host.
            and all(t.device == self._device or t.nbytes <= _FEW_BYTES for t in tensors)
        )
        for tensor in tensors:
            key = storage_key(tensor)
            if key not in others:
                recorded.outputs[key] = tensor.untyped_storage().nbytes()
                self._makers[key] = len(self.operators) - 1


class _Hooks(Drops):
    def __init__(self, arguments: Arguments, recorder: Recorder) -> None:
        super().__init__(arguments)
        self._recorder = recorder

    def _keep(self, tensor: Tensor, note: Note) -> None:
        super()._keep(tensor, note)
        if note[0] is not INPUT:
            self._recorder.note_saved(tensor)


@dataclass(slots=True)
class Recording:
    """Of one forward of a layer."""

    operators: list[Recorded]
    notes: list[Note]
    outputs: list[Tensor] = field(default_factory=list)  # of the layer, with a graph

    def way(self, name: str, kept: Collection[int]) -> Way:
        """Keeps the results of these operators."""
        joined = {
            number: operator.joined
            for number, operator in enumerate(self.operators)
            if operator.joined is not None and operator.joined in kept
        }
        operators = tuple(operator.operator for operator in self.operators)
        return Way(name, operators, frozenset(kept), joined)

    def form(self) -> tuple[Any, ...]:
        """Equal for equal layers: all but times."""
        return (
            tuple(operator.form() for operator in self.operators),
            tuple((note[0], *note[2:]) for note in self.notes),
        )


def record(arguments: Arguments, work: Workload) -> Recording:
    """Runs the layer once. Raises `UnsuitedError` where it cannot be saved in part."""
    if not all(map(has_plain_storage, arguments.tensors)):
        raise UnsuitedError("it gets tensors that are not plain")
    recorder = Recorder(work)
    hooks = _Hooks(arguments, recorder)

    def run(args: Any, kwargs: Any) -> Any:
        with hooks, recorder:
            return arguments.stage.run(args, kwargs)

    try:
        outputs, _ = arguments.run_by(run, gradients=True)
    except Exception as error:  # as of code that does not run under a dispatch mode
        raise UnsuitedError(f"it cannot be recorded: {error}") from error
    return Recording(recorder.operators, hooks.notes, outputs)


_FEW_BYTES = 64
_COLLECTIVES = ("c10d", "c10d_functional", "_c10d_functional", "symm_mem")


def _name_of(operator: Any) -> str:
    return str(operator).split(".")[1]


def _arguments_of(func: Any, args: Any, kwargs: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors that an operator writes into, and those that it only reads."""
    written: list[Tensor] = []
    read: list[Tensor] = []
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        (written if is_written else read).extend(_tensors_in(value))
    return written, read


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)

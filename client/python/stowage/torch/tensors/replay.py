"""Makes each run of a layer within a step see the same.

The first run reads and changes generators, buffers and attributes as without Stowage. A replay
starts from what the first run started from and puts back what it found, so that dropout has the
same mask and BatchNorm's statistics move once. What cannot be put back is compared: modules,
parameters, arguments, attributes other than numbers, strings and None.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from stowage.torch.tensors.attributes import SIMPLE, Attributes, Read, changed
from stowage.torch.tensors.storages import (
    arrived,
    has_plain_storage,
    held_by,
    is_stand_in,
    storage_key,
    version_of,
)


@dataclass(frozen=True, slots=True)
class Context:
    """What torch reads beside arguments: autocast on one kind of device, default type, modes."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    default_dtype: torch.dtype
    modes: tuple[Any, ...]  # torch function modes, the innermost last

    @staticmethod
    def current(device_type: str) -> Context:
        return Context(
            device_type,
            torch.is_autocast_enabled(device_type),
            torch.get_autocast_dtype(device_type),
            torch.get_default_dtype(),
            _function_modes(),
        )

    def again(self) -> contextlib.AbstractContextManager[None]:
        """Runs with this context."""
        if (
            self.enabled
            or torch.is_autocast_enabled(self.device_type)
            or torch.get_default_dtype() is not self.default_dtype
            or _function_modes() != self.modes
        ):
            return self._set()
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _set(self) -> Iterator[None]:
        default_dtype, modes = torch.get_default_dtype(), _function_modes()
        # Without the cache of cast weights: what is cast would stay until the user's context ends.
        autocast = torch.autocast(
            self.device_type, dtype=self.dtype, enabled=self.enabled, cache_enabled=False
        )
        _set_function_modes(self.modes)
        torch.set_default_dtype(self.default_dtype)
        try:
            with autocast:
                yield
        finally:
            torch.set_default_dtype(default_dtype)
            _set_function_modes(modes)


def _function_modes() -> tuple[Any, ...]:
    count = torch._C._len_torch_function_stack()
    return tuple(torch._C._get_function_stack_at(index) for index in range(count))


def _set_function_modes(modes: Sequence[Any]) -> None:
    for _ in range(torch._C._len_torch_function_stack()):
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


class RandomStates:
    """The generators of the host and of the devices in use."""

    __slots__ = ("devices", "host", "on_devices")

    def __init__(self, devices: tuple[torch.device, ...]) -> None:
        self.devices = devices
        state = torch.get_rng_state()
        # Not as a tensor: in small models on a CPU these would be much of a step's memory.
        self.host = ctypes.string_at(state.data_ptr(), state.nbytes)
        self.on_devices = [torch.cuda.get_rng_state(device) for device in devices]

    def restore(self) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(self.host), dtype=torch.uint8))
        for device, state in zip(self.devices, self.on_devices, strict=True):
            torch.cuda.set_rng_state(state, device)

    def equals(self, other: RandomStates) -> bool:
        return self.host == other.host and all(
            torch.equal(one, two)
            for one, two in zip(self.on_devices, other.on_devices, strict=True)
        )


def same_content(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one type and size are equal; not-a-number equals itself, and so does
    what has no content."""
    one, other = arrived(one), arrived(other)
    if one is other:
        return True
    if one.shape != other.shape:  # a buffer that had no size yet
        return False
    if is_stand_in(one):
        return True
    held = held_by(one)
    if len(held) != 1 or held[0] is not one:
        return all(map(same_content, held, held_by(other)))
    # Seldom more than the first: the second makes tensors of the size.
    return torch.equal(one, other) or bool(
        ((one == other) | ((one != one) & (other != other))).all()
    )


@dataclass(slots=True)
class Snapshot:
    """What the first run of a layer started from, and what it left."""

    devices: tuple[torch.device, ...] = ()
    random: RandomStates | None = None  # None: the layer draws no random numbers
    modules: list[nn.Module] = field(default_factory=list)
    before: list[Read] = field(default_factory=list)  # attributes, by module
    after: list[Read] = field(default_factory=list)
    # Parameters, their versions and places in memory after the run.
    parameters: list[nn.Parameter | None] = field(default_factory=list)
    versions: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    # Arguments, and their versions before the run: one that writes them cannot be repeated.
    arguments: list[tuple[Tensor, int]] = field(default_factory=list)
    all_buffers: list[tuple[nn.Module, str, Tensor, int]] = field(default_factory=list)
    # By module and name, for the buffers that the run writes.
    buffers: list[tuple[nn.Module, str, Tensor]] = field(default_factory=list)
    # The other buffers, and their versions after the run.
    kept: list[tuple[nn.Module, str, Tensor, int]] = field(default_factory=list)
    # The run wrote a buffer that earlier ones did not write, whose content is lost.
    lost: str = ""


class Replay:
    """Records the first run of a layer's forward in each step and repeats it. One thread a time."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self._name = name
        self._module = module
        self._modules: list[nn.Module] = []
        self._inner: list[nn.Module | None] = []  # of all modules, when the former were listed
        self._attributes: list[Attributes] = []
        # Which buffers first runs write, known for these training modes of the parts.
        self._modes: tuple[bool, ...] | None = None
        self._written: set[tuple[int, str]] = set()

    def before(
        self, devices: tuple[torch.device, ...], arguments: Iterable[Tensor | None]
    ) -> Snapshot:
        """Begins the snapshot, right before the first run, which has these arguments."""
        modules = self._listed()
        snapshot = Snapshot(devices, RandomStates(devices), modules)
        snapshot.arguments = [
            (tensor, version_of(tensor)) for tensor in arguments if tensor is not None
        ]
        snapshot.before = [attributes.read() for attributes in self._attributes]
        buffers = snapshot.all_buffers = [
            (part, name, buffer, buffer._version)
            for part in modules
            if part._buffers
            for name, buffer in part._buffers.items()
            if buffer is not None
        ]
        if buffers:
            is_known = self._modes == tuple(part.training for part in modules)
            snapshot.buffers = [
                (part, name, buffer.detach().clone())
                for part, name, buffer, _ in buffers
                if not is_known or (id(part), name) in self._written or name in _STATISTICS
            ]
        return snapshot

    def after(self, snapshot: Snapshot) -> None:
        """Completes the snapshot, right after the first run."""
        random = snapshot.random
        if random is not None and random.equals(RandomStates(snapshot.devices)):
            snapshot.random = None
        snapshot.after = [attributes.read() for attributes in self._attributes]
        if snapshot.all_buffers:
            self._note_buffers(snapshot)
        snapshot.parameters = _parameters(snapshot.modules)
        snapshot.versions = _versions(snapshot.parameters)

    def _note_buffers(self, snapshot: Snapshot) -> None:
        buffers, before = snapshot.all_buffers, snapshot.buffers
        modes = tuple(part.training for part in snapshot.modules)
        known = modes == self._modes
        contents = {(id(part), name): content for part, name, content in before}
        written = {
            (id(part), name)
            for part, name, buffer, version in buffers
            if part._buffers.get(name) is not buffer
            or buffer._version != version
            or (part.training and name in _STATISTICS)
            # What was written before may be written: a look at it would wait for a GPU.
            or (known and (id(part), name) in self._written)
            # By content: BatchNorm's kernel does not count versions.
            or not same_content(buffer, contents.get((id(part), name), buffer))
        }
        for _, name in written - contents.keys():
            snapshot.lost = name
        self._written = self._written | written if known else written
        self._modes = modes
        snapshot.kept = [
            (part, name, buffer, buffer._version)
            for part, name, buffer, _ in buffers
            if (id(part), name) not in written
        ]
        snapshot.buffers = [entry for entry in before if (id(entry[0]), entry[1]) in written]
        snapshot.all_buffers = []

    @contextlib.contextmanager
    def again(self, snapshot: Snapshot) -> Iterator[None]:
        """Runs a replay inside, from what the first run started from.

        Raises where that is not known or has changed. Buffers are replaced, not written: autograd
        has saved some of them.
        """
        self._refuse_changed(snapshot)
        attributes = self._attributes_to_set(snapshot)
        found = RandomStates(snapshot.devices) if snapshot.random is not None else None
        originals = [(part, name, part._buffers[name]) for part, name, _ in snapshot.buffers]
        for part, name, content in snapshot.buffers:
            part._buffers[name] = content.clone()
        if snapshot.random is not None:
            snapshot.random.restore()
        then = [(entries, name, entries[name]) for entries, name, _ in attributes]
        for entries, name, value in attributes:
            entries[name] = value
        try:
            yield
        finally:
            for entries, name, value in then:
                entries[name] = value
            for part, name, original in originals:
                part._buffers[name] = original
            if found is not None:
                found.restore()

    def _refuse_changed(self, snapshot: Snapshot) -> None:
        if snapshot.lost:
            raise RuntimeError(
                f"{self._name} has written its buffer {snapshot.lost!r}, which it did not in "
                "earlier steps, so it cannot be recomputed in this one; run the step again"
            )
        if self._listed() != snapshot.modules:
            self._refuse("a module")
        for part, name, buffer, version in snapshot.kept:
            if part._buffers.get(name) is not buffer or buffer._version != version:
                self._refuse(f"buffer {name!r}")
        parameters = _parameters(snapshot.modules)
        # By identity, which lists compare first; tensors have no equality.
        same = all(map(operator.is_, parameters, snapshot.parameters))
        if not same or _versions(parameters) != snapshot.versions:
            self._refuse(self._changed_parameter(snapshot, parameters))
        for tensor, version in snapshot.arguments:
            if version_of(tensor) != version:
                self._refuse("an argument")

    def _changed_parameter(
        self, snapshot: Snapshot, parameters: Sequence[nn.Parameter | None]
    ) -> str:
        names = {id(parameter): name for name, parameter in self._module.named_parameters()}
        for then, now, version in zip(
            snapshot.parameters, parameters, snapshot.versions, strict=False
        ):
            if then is not now or [version] != _versions([now]):
                return f"parameter {names.get(id(now), '')}".rstrip()
        return "a parameter"

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"{what} of {self._name} was changed in place, or replaced, after {self._name} had "
            "read it, so that cannot be recomputed: change a copy, change it after the backward, "
            "or call stowage.unfit(model)"
        )

    def _attributes_to_set(self, snapshot: Snapshot) -> list[tuple[dict[str, Any], str, Any]]:
        """What the first run began with and is otherwise now, or will be after the first run."""
        now = [attributes.read() for attributes in self._attributes]
        if now == snapshot.after == snapshot.before:
            return []
        to_set = []
        for module, before, after, found in zip(
            snapshot.modules, snapshot.before, snapshot.after, now, strict=True
        ):
            first = dict(zip(*before, strict=True))
            by_the_run = changed(before, after)
            for name in changed(after, found) | by_the_run:
                entries = vars(module)
                if name in entries and isinstance(first.get(name, self), SIMPLE):
                    to_set.append((entries, name, first[name]))
                elif name not in by_the_run:
                    self._refuse(f"attribute {self._path_of(module, name)}")
        return to_set

    def _path_of(self, module: nn.Module, name: str) -> str:
        path = next((path for path, part in self._module.named_modules() if part is module), "")
        return f"{path}.{name}" if path else name

    def _listed(self) -> list[nn.Module]:
        """The layer's modules. Looked for anew where one of them has others inside."""
        inner = [part for module in self._modules for part in module._modules.values()]
        if not self._modules or inner != self._inner:
            self._modules = list(self._module.modules())
            self._inner = [part for module in self._modules for part in module._modules.values()]
            self._attributes = [Attributes(module) for module in self._modules]
        return self._modules


# Of norms in training: kernels write them without counting versions, and sometimes as they were.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _parameters(modules: Iterable[nn.Module]) -> list[nn.Parameter | None]:
    return [parameter for module in modules for parameter in module._parameters.values()]


def _versions(parameters: Iterable[nn.Parameter | None]) -> list[tuple[int, tuple[int, int]]]:
    return [
        (parameter._version, _memory_of(parameter))
        for parameter in parameters
        if parameter is not None
    ]


def _memory_of(parameter: nn.Parameter) -> tuple[int, int]:
    """The storage itself, which is made anew at another address where layers are sharded."""
    if has_plain_storage(parameter):
        return storage_key(parameter), int(parameter.storage_offset())
    return 0, parameter.data_ptr()

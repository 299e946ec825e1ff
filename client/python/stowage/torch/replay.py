"""Makes each run of a layer within a step see the same: random numbers, buffers, autocast.

The first run reads and changes generators and buffers as without Stowage. A recomputation starts
from what the first run started from and puts back what it found, so that dropout has the same mask
and BatchNorm's statistics move once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from stowage.torch.values import parts_of


@dataclass(frozen=True, slots=True)
class Autocast:
    """Autocast's state on one kind of device."""

    device_type: str
    enabled: bool
    dtype: torch.dtype

    @staticmethod
    def current(device_type: str) -> Autocast:
        return Autocast(
            device_type,
            torch.is_autocast_enabled(device_type),
            torch.get_autocast_dtype(device_type),
        )

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Runs with this state.

        Without the cache of cast weights: one that a forward without gradients has cast would be
        taken by the next one with gradients, which would lose the weight's, and what a
        recomputation casts would stay until the user's context ends.
        """
        if not self.enabled and not torch.is_autocast_enabled(self.device_type):
            yield
            return
        with torch.autocast(
            self.device_type, dtype=self.dtype, enabled=self.enabled, cache_enabled=False
        ):
            yield


class RandomStates:
    """The generators of the host and of the devices in use."""

    __slots__ = ("devices", "host", "on_devices")

    def __init__(self, devices: tuple[torch.device, ...]) -> None:
        self.devices = devices
        self.host = torch.get_rng_state()
        self.on_devices = [torch.cuda.get_rng_state(device) for device in devices]

    def restore(self) -> None:
        torch.set_rng_state(self.host)
        for device, state in zip(self.devices, self.on_devices, strict=True):
            torch.cuda.set_rng_state(state, device)

    def equals(self, other: RandomStates) -> bool:
        return torch.equal(self.host, other.host) and all(
            torch.equal(one, two)
            for one, two in zip(self.on_devices, other.on_devices, strict=True)
        )


def same_content(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one type and size are equal; not-a-number equals itself."""
    if one is other:
        return True
    if one.layout != torch.strided:
        return all(
            a.shape == b.shape and same_content(a, b)
            for a, b in zip(parts_of(one), parts_of(other), strict=True)
        )
    # Seldom more than the first: the second makes tensors of the size.
    return torch.equal(one, other) or bool(
        ((one == other) | ((one != one) & (other != other))).all()
    )


@dataclass(slots=True)
class Snapshot:
    """What the first run of a layer started from."""

    random: RandomStates | None = None  # None: the layer draws no random numbers
    # By module and name, for the buffers that the run writes.
    buffers: list[tuple[nn.Module, str, Tensor]] = field(default_factory=list)
    # The other buffers, and their versions after the run.
    kept: list[tuple[nn.Module, str, Tensor, int]] = field(default_factory=list)
    # The run wrote a buffer that earlier ones did not write, whose content is lost.
    lost: str = ""


class Replay:
    """Records the first run of a layer's forward in each step and repeats it. One thread a time."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        # Which buffers first runs write, known for these training modes of the parts.
        self._modes: tuple[bool, ...] | None = None
        self._written: set[tuple[int, str]] = set()

    @contextlib.contextmanager
    def first(self, devices: tuple[torch.device, ...], snapshot: Snapshot) -> Iterator[None]:
        """Fills `snapshot` while the first run runs inside."""
        random = RandomStates(devices)
        buffers = self._buffers()
        modes = tuple(part.training for part in self._module.modules()) if buffers else ()
        known = modes == self._modes
        before = [
            (part, name, buffer.detach().clone())
            for part, name, buffer in buffers
            if not known or (id(part), name) in self._written
        ]
        versions = [buffer._version for _, _, buffer in buffers]
        yield
        if not random.equals(RandomStates(devices)):
            snapshot.random = random
        contents = {(id(part), name): content for part, name, content in before}
        written = {
            (id(part), name)
            for (part, name, buffer), version in zip(buffers, versions, strict=True)
            if part._buffers.get(name) is not buffer
            or buffer._version != version
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
            for part, name, buffer in buffers
            if (id(part), name) not in written
        ]
        snapshot.buffers = [entry for entry in before if (id(entry[0]), entry[1]) in written]

    @contextlib.contextmanager
    def again(self, snapshot: Snapshot) -> Iterator[None]:
        """Runs a recomputation inside.

        Buffers are replaced, not written: autograd has saved some of them.
        """
        if snapshot.lost:
            raise RuntimeError(
                f"the layer has written its buffer {snapshot.lost!r}, which it did not in earlier "
                "steps, so it cannot be recomputed in this one; run the step again"
            )
        for part, name, buffer, version in snapshot.kept:
            if part._buffers.get(name) is not buffer or buffer._version != version:
                raise RuntimeError(
                    f"the layer's buffer {name!r} was changed after the layer had read it, so it "
                    "cannot be recomputed: change it after the backward, or call "
                    "stowage.unfit(model)"
                )
        found = RandomStates(snapshot.random.devices) if snapshot.random is not None else None
        originals = [(part, name, part._buffers[name]) for part, name, _ in snapshot.buffers]
        for part, name, content in snapshot.buffers:
            part._buffers[name] = content.clone()
        if snapshot.random is not None:
            snapshot.random.restore()
        try:
            yield
        finally:
            for part, name, original in originals:
                part._buffers[name] = original
            if found is not None:
                found.restore()

    def _buffers(self) -> list[tuple[nn.Module, str, Tensor]]:
        return [
            (part, name, buffer)
            for part in self._module.modules()
            for name, buffer in part._buffers.items()
            if buffer is not None
        ]

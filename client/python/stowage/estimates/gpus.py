"""GPUs and their memory, as a driver reports it."""

from __future__ import annotations

from dataclasses import dataclass

from stowage.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card.

    Attributes:
        name: As `gpus()` lists it.
        memory_bytes: All of it; a process's context takes some 0.5 GiB of that.
        source: Who has read it off.
    """

    name: str
    memory_bytes: int
    source: str


def gpus() -> tuple[Gpu, ...]:
    """The cards that are known, those with the most memory first."""
    return _GPUS


def gpu_of(name: str) -> Gpu:
    """Raises `InvalidRequestError` with the names that there are."""
    for gpu in _GPUS:
        if gpu.name.lower() == name.lower():
            return gpu
    names = ", ".join(gpu.name for gpu in _GPUS)
    raise InvalidRequestError(f"gpu: {name!r} is not known; the names are {names}")


_MIB = 1 << 20
_MODAL = "nvidia-smi, by github.com/modal-labs/modal-client/pull/2797"
_GPUS = (
    Gpu("B200", int(178.35 * (1 << 30)), "CUDA, by github.com/pytorch/ao/pull/4002"),
    Gpu("H200", 140 << 30, "a run of this project: tests/gpu/RESULTS.md"),
    Gpu("A100-80G", 81_920 * _MIB, _MODAL),
    Gpu("H100-80G", 81_559 * _MIB, _MODAL),
    Gpu("L40S", 46_068 * _MIB, _MODAL),
    Gpu("A100-40G", 40_960 * _MIB, _MODAL),
    Gpu("RTX-5090", 32_607 * _MIB, "nvidia-smi, by github.com/noonghunna/club-3090/issues/1261"),
    Gpu("L4", 23_034 * _MIB, _MODAL),
    Gpu("A10", 23_028 * _MIB, _MODAL),
    Gpu("T4", 15_360 * _MIB, _MODAL),
)

"""GPUs: their memory as a driver reports it, their rates as their makers state them."""

from __future__ import annotations

from dataclasses import dataclass

from stowage.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card. `dataclasses.replace` makes another one of it.

    Attributes:
        name: As `gpus()` lists it.
        memory_bytes: All of it; see `usable_bytes`.
        float16_flops: Of matrix products a second, without sparsity.
        bfloat16_flops: The same.
        tf32_flops: Of convolutions in float32, as PyTorch has them by default.
        float32_flops: Of all else in float32.
        bytes_per_second: Of its memory.
        link_bytes_per_second: Between its memory and the host's, in either direction.
        source: Who has read off the memory.
        rates: Where its maker states the rates.
    """

    name: str
    memory_bytes: int
    float16_flops: float
    bfloat16_flops: float
    tf32_flops: float
    float32_flops: float
    bytes_per_second: float
    link_bytes_per_second: float
    source: str
    rates: str

    def __post_init__(self) -> None:
        if type(self.memory_bytes) is not int or not 1 << 30 <= self.memory_bytes < 1 << 62:
            raise InvalidRequestError(
                f"memory_bytes: is {self.memory_bytes!r}; it must be a whole number of bytes from "
                "2^30 (1 GiB) to below 2^62"
            )
        for name in _RATES:
            rate = getattr(self, name)
            if not isinstance(rate, (int, float)) or not 1e3 <= rate <= 1e18:
                raise InvalidRequestError(f"{name}: is {rate!r}; it must be from 1e3 to 1e18")

    @property
    def usable_bytes(self) -> int:
        """Without a process's context, workspaces of libraries and the allocator's slack: 1 GiB,
        and 3 % of the memory."""
        return max(0, self.memory_bytes - (1 << 30) - 3 * self.memory_bytes // 100)


_RATES = (
    *("float16_flops", "bfloat16_flops", "tf32_flops", "float32_flops"),
    *("bytes_per_second", "link_bytes_per_second"),
)


def gpus() -> tuple[Gpu, ...]:
    """The cards that are known, those with the most memory first."""
    return _GPUS


def gpu_of(gpu: str | Gpu) -> Gpu:
    """The card of a name, or itself. Raises `InvalidRequestError` with the names that there are."""
    if isinstance(gpu, Gpu):
        return gpu
    name = str(gpu)
    for one in _GPUS:
        if one.name.lower() == name.lower():
            return one
    names = ", ".join(gpu.name for gpu in _GPUS)
    raise InvalidRequestError(f"gpu: {name!r} is not known; the names are {names}")


_MIB = 1 << 20
_MODAL = "nvidia-smi, by github.com/modal-labs/modal-client/pull/2797"
# Copies reach four fifths of what 16 lanes have.
_PCIE_3, _PCIE_4, _PCIE_5 = 12.5e9, 25e9, 50e9


def _gpu(
    name: str,
    memory_bytes: int,
    teraflops: tuple[float, float, float, float],
    terabytes: float,
    link: float,
    source: str,
    rates: str,
) -> Gpu:
    half, bfloat16, tf32, float32 = (1e12 * rate for rate in teraflops)
    traffic = 1e12 * terabytes
    return Gpu(name, memory_bytes, half, bfloat16, tf32, float32, traffic, link, source, rates)


# fmt: off
_GPUS = (
    _gpu("B200", int(178.35 * (1 << 30)), (2250, 2250, 1125, 75), 8.0, _PCIE_5,
         "CUDA, by github.com/pytorch/ao/pull/4002", "NVIDIA Blackwell datasheet, HGX B200"),
    _gpu("H200", 140 << 30, (989, 989, 494, 67), 4.8, _PCIE_5,
         "a run of this project: tests/gpu/RESULTS.md", "NVIDIA H200 datasheet, SXM"),
    _gpu("A100-80G", 81_920 * _MIB, (312, 312, 156, 19.5), 2.039, _PCIE_4, _MODAL,
         "NVIDIA A100 datasheet, SXM"),
    _gpu("H100-80G", 81_559 * _MIB, (989, 989, 494, 67), 3.35, _PCIE_5, _MODAL,
         "NVIDIA H100 datasheet, SXM"),
    _gpu("L40S", 46_068 * _MIB, (362, 362, 183, 91.6), 0.864, _PCIE_4, _MODAL,
         "NVIDIA L40S datasheet"),
    _gpu("A100-40G", 40_960 * _MIB, (312, 312, 156, 19.5), 1.555, _PCIE_4, _MODAL,
         "NVIDIA A100 datasheet, SXM"),
    _gpu("RTX-5090", 32_607 * _MIB, (209.5, 209.5, 104.8, 104.8), 1.792, _PCIE_5,
         "nvidia-smi, by github.com/noonghunna/club-3090/issues/1261",
         "NVIDIA RTX Blackwell architecture paper"),
    _gpu("L4", 23_034 * _MIB, (121, 121, 60, 30.3), 0.3, _PCIE_4, _MODAL, "NVIDIA L4 datasheet"),
    _gpu("A10", 23_028 * _MIB, (125, 125, 62.5, 31.2), 0.6, _PCIE_4, _MODAL,
         "NVIDIA A10 datasheet"),
    # Without bfloat16 in its matrix units, and without TF32.
    _gpu("T4", 15_360 * _MIB, (65, 8.1, 8.1, 8.1), 0.32, _PCIE_3, _MODAL, "NVIDIA T4 datasheet"),
)
# fmt: on

"""What the kernels of a transformer's block save and take, by the formulas of the profiles'
provenance.

A block is a chain of kernels, with T tokens, width d, inner width f, X = T d and F = T f elements:

    products    2 T in out FLOPs: q, k, v (d to 3d), the projection (d to d), d to f, f to d
    passes      norm: 2 X read and written; activation: 2 F (LLaMA's gate: 2 F and 3 F); dropout
                and residual: 3 X; rotary embedding: 4 X
    attention   what is left of the stage's forward

A pass takes its bytes over the bandwidth, a product its FLOPs over the rate, each plus a launch.
Masks of dropout are kept. A replay leaves out the last product, or BERT's last norm, which reads
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stowage import Stage


@dataclass(frozen=True)
class Device:
    flops: float  # of products, a second
    bandwidth: float  # bytes a second
    launch_seconds: float
    element_bytes: int


V100 = Device(11.0e12, 765e9, 6e-6, 4)
A100 = Device(187e12, 1322e9, 5e-6, 2)


@dataclass(frozen=True)
class Transformer:
    device: Device
    batch: int
    sequence: int
    width: int
    heads: int
    inner: int
    saves_probabilities: bool  # with dropout; else the log-sum-exp alone
    is_llama: bool = False

    def product(self, inputs: int, outputs: int) -> float:
        flops = 2 * self.batch * self.sequence * inputs * outputs
        return flops / self.device.flops + self.device.launch_seconds

    def passes(self, size: int) -> float:
        """Seconds to read and write so many bytes."""
        return size / self.device.bandwidth + self.device.launch_seconds

    @property
    def attention_bytes(self) -> int:
        """What attention saves between its inputs and its output: the log-sum-exp in fp32, or the
        probabilities before and after dropout and its mask."""
        rows = self.batch * self.heads * self.sequence
        if not self.saves_probabilities:
            return rows * 4
        return rows * self.sequence * (2 * self.device.element_bytes + 1)


TRANSFORMERS = {
    "analytic-bertlarge-8-512": Transformer(V100, 8, 512, 1024, 16, 4096, True),
    "analytic-gpt2medium_flash-4-1024": Transformer(V100, 4, 1024, 1024, 16, 4096, False),
    "analytic-gpt2small-8-1024": Transformer(V100, 8, 1024, 768, 12, 3072, True),
    "analytic-gpt2small_flash-8-1024": Transformer(V100, 8, 1024, 768, 12, 3072, False),
    "analytic-gpt2xl-4-1024": Transformer(A100, 4, 1024, 1600, 25, 6400, True),
    "analytic-gpt2xl_flash-4-1024": Transformer(A100, 4, 1024, 1600, 25, 6400, False),
    "analytic-llama7b_flash-1-4096": Transformer(A100, 1, 4096, 4096, 32, 11008, False, True),
}


@dataclass(frozen=True)
class Kernels:
    """What kernels leave for the backward, and take."""

    bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Kernels) -> Kernels:
        return Kernels(self.bytes + other.bytes, self.seconds + other.seconds)


@dataclass(frozen=True)
class Block:
    cheap: Kernels  # norms and activations
    products: Kernels
    left_out: float  # seconds of a replay
    attention: Kernels = field(default=Kernels())


def block_of(model: Transformer, stage: Stage) -> Block | None:
    """None: the stage is no block."""
    d, f = model.width, model.inner
    tokens_bytes = model.batch * model.sequence * model.device.element_bytes
    hidden, inner = tokens_bytes * d, tokens_bytes * f
    norm, residual = model.passes(2 * hidden), model.passes(3 * hidden)
    activation = model.passes(2 * inner)
    last = model.product(f, d)
    rest = last + residual  # of the forward, beside the block's kernels
    if stage.name.endswith(".mlp"):
        cheap = Kernels(hidden + inner, norm + activation)
        return Block(cheap, Kernels(inner, model.product(d, f)), left_out=last)
    if stage.name.endswith(".attention"):
        cheap = Kernels(hidden, norm)
        products = Kernels(3 * hidden, model.product(d, 3 * d))
        left_out = model.product(d, d)
        rest = left_out + residual
    elif not stage.name.startswith("layer"):
        return None
    else:
        seconds = model.product(d, 3 * d) + model.product(d, d) + residual + model.product(d, f)
        if model.is_llama:
            gate = activation + model.passes(3 * inner)
            cheap = Kernels(2 * hidden + 2 * inner, 2 * norm + gate)
            seconds += model.passes(4 * hidden) + model.product(d, f)
            products = Kernels(4 * hidden + 2 * inner, seconds)
            left_out = last
        else:
            cheap = Kernels(hidden + inner, norm + activation)
            products = Kernels(4 * hidden + inner, seconds)
            left_out = norm
            rest += norm
    left = stage.forward_seconds - cheap.seconds - products.seconds - rest
    attention = Kernels(hidden + model.attention_bytes, max(0.0, left))
    return Block(cheap, products, left_out, attention)

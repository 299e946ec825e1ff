"""Code for PyTorch: it trains as plain training does, with the memory of the plan."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from exports import (
    counted,
    export,
    forwards,
    module_of,
    part_chain,
    with_way,
)
from support import chain_of

import stowage
from stowage import Chain, Stage

WIDTH, ROWS = 64, 4096
UNIT = WIDTH * ROWS * 4
BLOCKS = 8


def blocks_chain() -> Chain:
    """Of the blocks below. A backward holds two gradients of the wide value beside its own; those
    of parameters are not activations.
    """
    stage = partial(
        Stage,
        forward_seconds=1.0,
        backward_seconds=2.0,
        output_bytes=UNIT,
        saved_bytes=5 * UNIT,
        forward_overhead_bytes=4 * UNIT,
        backward_overhead_bytes=5 * UNIT,
    )
    return Chain(
        name="blocks",
        input_bytes=UNIT,
        input_gradient_bytes=UNIT,
        stages=tuple(stage(name=f"block{i}") for i in range(BLOCKS)),
    )


def make_blocks():
    import torch

    torch.manual_seed(0)
    return [
        torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.Tanh(),
            torch.nn.Linear(4 * WIDTH, WIDTH),
            torch.nn.Tanh(),
        )
        for _ in range(BLOCKS)
    ]


@pytest.mark.parametrize("memory", ["0%", "20%", "50%", "100%"])
def test_pytorch_gradients_are_plain_trainings_and_the_peak_is_as_predicted(memory):
    import torch

    from stowage.torch.measuring.meter import MemoryMeter

    exported = export("pytorch", blocks_chain(), memory_of(memory))
    module = module_of(exported)

    def step(forward) -> tuple[list[torch.Tensor], int]:
        blocks = make_blocks()
        for parameter in torch.nn.ModuleList(blocks).parameters():
            parameter.grad = torch.zeros_like(parameter)
        seed = torch.Generator().manual_seed(1)
        with MemoryMeter(torch.device("cpu")) as meter, meter.span("step"):
            value = torch.randn(ROWS, WIDTH, generator=seed, requires_grad=True)
            forward(blocks, value).sum().backward()
        gradients = [value.grad, *(p.grad for p in torch.nn.ModuleList(blocks).parameters())]
        return gradients, meter.spans["step"].peak

    plain, _ = step(module.run)
    planned, peak = step(module.forward)
    assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True))
    assert peak == pytest.approx(exported.exported.prediction.peak_memory_bytes, rel=0.05)

    modules = module.Checkpointed(*make_blocks())
    counts = counted(modules)
    modules(torch.randn(4, WIDTH)).sum().backward()
    assert counts == forwards(exported, BLOCKS)
    with pytest.raises(ValueError, match="8 stages, not 7"):
        module.forward(list(modules)[1:], torch.randn(4, WIDTH))


def test_pytorch_moves_statistics_of_batchnorm_twice_and_says_the_remedy():
    import torch

    exported = export("pytorch", blocks_chain(), memory_of("0%"))
    module = module_of(exported)
    value = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))

    def norms(forward, momentum: float) -> list[torch.nn.BatchNorm1d]:
        blocks = [torch.nn.BatchNorm1d(WIDTH, momentum=momentum) for _ in range(BLOCKS)]
        for block in blocks:  # what the next one reads has other statistics than it begins with
            torch.nn.init.constant_(block.weight, 2)
            torch.nn.init.constant_(block.bias, 1)
        forward(blocks, value).sum().backward()
        return blocks

    assert "BatchNorm" in exported.text
    plain = norms(module.run, 0.19)
    planned = norms(module.forward, 1 - (1 - 0.19) ** 0.5)
    counts = [int(norm.num_batches_tracked) for norm in planned]
    assert counts == forwards(exported, BLOCKS)
    for count, one, other in zip(counts, plain, planned, strict=True):
        for statistics in ("running_mean", "running_var"):
            pair = getattr(one, statistics), getattr(other, statistics)
            assert torch.allclose(*pair) == (count == 2)


def memory_of(share: str) -> str:
    """Bytes: of the way from the least memory of a flat plan to storing everything."""
    chain = blocks_chain()
    least = stowage.solve(chain, memory="0%", solver="flat").minimum_memory_bytes
    most = stowage.memory_range(chain)[1]
    return str(int(least + (most - least) * float(share[:-1]) / 100))


def budget_of(chain: Chain, way: int) -> str:
    """Where the way fits in each stage, and keeping all does not."""
    stage = chain.stages[0]
    return f"{2 + 98 * stage.save_options[way].saved_bytes / stage.saved_bytes:.0f}%"


def make_decoder_blocks():
    """Draw random numbers, and change values in place."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(0.1)
            self.queries, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.activation = nn.ReLU(inplace=True)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            parts = self.queries(self.norm(value)).unflatten(-1, (3, 4, -1)).unbind(-3)
            heads = [part.transpose(-2, -3) for part in parts]
            found = scaled_dot_product_attention(*heads, dropout_p=0.1)
            value = value + self.dropout(self.output(found.transpose(-2, -3).flatten(-2)))
            return value + self.dropout(self.narrow(self.activation(self.wide(value))))

    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(4)))


@pytest.fixture(scope="module")
def decoder_chain() -> Chain:
    import torch

    model = make_decoder_blocks()
    stowage.fit(model, torch.randn(4, 128, WIDTH), activations="50%", verbose=False)
    chain = stowage.report(model).chain
    assert chain is not None
    assert len({len(stage.save_options) for stage in chain.stages}) == 1
    return chain


def test_pytorch_keeps_the_operators_of_every_way_that_fit_finds(decoder_chain):
    import torch

    from stowage.torch.measuring.meter import MemoryMeter

    def step(forward) -> tuple[list[torch.Tensor], int]:
        blocks = make_decoder_blocks()
        for parameter in blocks.parameters():
            parameter.grad = torch.zeros_like(parameter)
        value = torch.randn(4, 128, WIDTH).requires_grad_()
        with MemoryMeter(torch.device("cpu")) as meter, meter.span("step"):
            forward(list(blocks), value).square().mean().backward()
        return [value.grad, *(p.grad for p in blocks.parameters())], meter.spans["step"].peak

    ways = len(decoder_chain.stages[0].save_options)
    assert ways >= 1
    for way in range(ways):
        exported = export("pytorch", part_chain(decoder_chain, way), budget_of(decoder_chain, way))
        module = module_of(exported)
        assert module.IN_PART
        plain, most = step(module.run)
        planned, peak = step(module.forward)
        assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True)), way
        assert peak <= 1.03 * exported.exported.prediction.peak_memory_bytes
        assert peak < most


def step_of(forward, sample, stages, times: int = 1) -> list[object]:
    import torch

    torch.manual_seed(1)
    value = sample.clone().requires_grad_()
    sum(forward(list(stages), value).float().square().mean() for _ in range(times)).backward()
    return [value.grad, *(parameter.grad for parameter in stages.parameters())]


def exported_keeping(kept: tuple[str, ...], stages: int = 3) -> SimpleNamespace:
    chain = with_way(chain_of(stages, saved_bytes=8 << 20), 2 << 20, kept=kept)
    module = module_of(export("pytorch", chain, "40%"))
    assert module.IN_PART
    return module


@pytest.mark.parametrize(
    "kept",
    [
        ("aten.native_dropout.default#0",),
        ("aten.native_dropout.default#1", "aten.addmm.default#0"),
        ("aten.bernoulli_.float#0", "aten.empty_like.default#0", "aten.div_.Tensor#0"),
    ],
)
def test_pytorch_draws_on_after_a_kept_result_that_was_drawn(kept):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.drops = kept[0].startswith("aten.native_dropout")

        def forward(self, value):
            for _ in range(3):
                value = self.dropped(torch.tanh(self.linear(value)))
            return value

        def dropped(self, value):
            if self.drops:
                return torch.native_dropout(value, 0.5, True)[0]
            return value * torch.empty_like(value).bernoulli_(0.5).div_(0.5)

    def make():
        torch.manual_seed(0)
        return nn.Sequential(Block(), Block(), Block())

    module, sample = exported_keeping(kept), torch.randn(4, 8)
    plain = step_of(module.run, sample, make())
    planned = step_of(module.forward, sample, make())
    assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True))


@pytest.mark.parametrize("call", range(4))
def test_pytorch_counts_no_casts_of_weights(call):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, linear: nn.Module) -> None:
            super().__init__()
            self.linear, self.own = linear, nn.Linear(8, 8)

        def forward(self, value):
            return self.linear(self.own(value).float().tanh()).float().sin()

    def make():
        torch.manual_seed(0)
        shared = nn.Linear(8, 8)  # cast by the first layer alone
        return nn.Sequential(*(Block(shared) for _ in range(3)))

    module = exported_keeping((f"aten._to_copy.default#{call}",))
    sample = torch.randn(8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        plain = step_of(module.run, sample, make(), times=2)
        planned = step_of(module.forward, sample, make(), times=2)
    assert all(torch.equal(a, b) for a, b in zip(plain, planned, strict=True))


def test_pytorch_refuses_layers_that_the_plan_is_not_of():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, value):
            return self.linear(value).mul_(3).add_(1).tanh()

    sample, stages = torch.randn(4, 8), nn.Sequential(Block(), Block(), Block())
    for kept, says in (
        (("aten.addmm.default#0",), "aten.mul_.Tensor changes a tensor that the plan keeps"),
        (("aten.mul_.Tensor#0",), "aten.mul_.Tensor changes a tensor that the plan does not keep"),
    ):
        with pytest.raises(RuntimeError, match=says):
            step_of(exported_keeping(kept).forward, sample, stages)
    with pytest.raises(AttributeError, match="'aten' object has no attribute 'nope'"):
        exported_keeping(("aten.nope.default#0",))

    kept = ("aten.addmm.default#0", "aten.mul_.Tensor#0", "aten.add_.Tensor#0")
    output = exported_keeping(kept).forward(list(stages), sample.requires_grad_())
    loss = output.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="saved in part has one backward"):
        loss.backward()


def test_pytorch_gives_the_partitioner_of_compile_the_policy():
    import torch

    stages = torch.nn.Sequential(*make_blocks())
    module = exported_keeping(("aten.addmm.default#0",), BLOCKS)
    sample = torch.randn(16, WIDTH)

    def gradients(forward):
        forward(list(stages), sample).square().mean().backward()
        found = [parameter.grad for parameter in stages.parameters()]
        stages.zero_grad()
        return found

    compiled = torch.compile(module.forward, backend="aot_eager", fullgraph=True)
    for a, b in zip(gradients(module.run), gradients(compiled), strict=True):
        torch.testing.assert_close(a, b)

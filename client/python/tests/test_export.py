"""Exports, each run by its framework: what the settings or code do is what the plan says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from support import PROGRAMS, chain_of

import stowage
from stowage import Chain, InfeasibleError, InvalidRequestError, OperationKind, Platform, Stage

TARGETS = [target.name for target in stowage.export_targets()]
FORWARDS = (
    OperationKind.FORWARD_SAVE,
    OperationKind.FORWARD_CHECKPOINT,
    OperationKind.FORWARD_DISCARD,
)


def export(target: str, chain: Chain, memory: str, **options) -> stowage.Export:
    return stowage.export(stowage.solve(chain, memory=memory), target, **options)


def least_of(target: str, chain: Chain) -> str:
    """The least memory with which the target can express a plan, in bytes."""
    with pytest.raises(InfeasibleError) as error:
        export(target, chain, "1")
    return str(error.value.minimum_memory_bytes)


def forwards(exported: stowage.Export, stages: int) -> list[int]:
    """How often the plan runs the forward of each stage."""
    counts = Counter(
        operation.stage
        for operation in exported.exported.schedule.operations
        if operation.kind in FORWARDS
    )
    return [counts[stage] for stage in range(1, stages + 1)]


def module_of(exported: stowage.Export) -> SimpleNamespace:
    """The generated code, run as a module."""
    names: dict[str, object] = {"__name__": "exported"}
    exec(compile(exported.text, "exported.py", "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


def counted(layers) -> list[int]:
    """Counts the forwards of torch modules from now on."""
    counts = [0] * len(layers)

    def count(index: int, *_: object) -> None:
        counts[index] += 1

    for index, layer in enumerate(layers):
        layer.register_forward_pre_hook(partial(count, index))
    return counts


# --- PyTorch ----------------------------------------------------------------------------------

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

    from stowage.torch.meter import MemoryMeter

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


def ways_of(exported: stowage.Export) -> dict[int, int]:
    """The number of its way, by stage that the plan saves in part."""
    return {
        operation.stage: operation.save_option
        for operation in exported.exported.schedule.operations
        if operation.kind in FORWARDS and operation.save_option
    }


def with_way(chain: Chain, saved_bytes: int, **names: tuple[str, ...]) -> Chain:
    """The chain with a way of every stage that reruns the rest of what its own saves."""
    stages = []
    for stage in chain.stages:
        rest = stage.saved_bytes - saved_bytes
        way = stowage.SaveOption(
            name=" ".join(*names.values()),
            saved_bytes=saved_bytes,
            backward_seconds=1.01 * stage.backward_seconds,
            backward_overhead_bytes=stage.backward_overhead_bytes + rest,
            save_overhead_bytes=stage.forward_overhead_bytes + rest,
            **names,
        )
        stages.append(replace(stage, save_options=(way,)))
    return replace(chain, stages=tuple(stages))


def part_chain(chain: Chain, way: int) -> Chain:
    """The chain with one of its ways alone, and with times of which that way is worth its while."""
    stages = [
        replace(
            stage,
            forward_seconds=1.0,
            replay_seconds=None,
            backward_seconds=2.0,
            save_options=tuple(
                replace(option, backward_seconds=2.01)
                for option in stage.save_options[way : way + 1]
            ),
        )
        for stage in chain.stages
    ]
    return replace(chain, stages=tuple(stages))


def budget_of(chain: Chain, way: int) -> str:
    """Where the way fits in each stage, and keeping all does not."""
    stage = chain.stages[0]
    return f"{50 + 50 * stage.save_options[way].saved_bytes / stage.saved_bytes:.0f}%"


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

    from stowage.torch.meter import MemoryMeter

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
        assert peak <= 1.03 * exported.exported.prediction.peak_memory_bytes < most


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


# --- JAX --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["40%", "80%"])
def test_jax_saves_the_named_values_and_gradients_are_equal(memory):
    import jax
    from jax.ad_checkpoint import print_saved_residuals

    stages = 6
    exported = export("jax", chain_of(stages), memory)
    module = module_of(exported)
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.tanh(value @ weight)

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    named = re.findall(r"named '(\w+)'", printed.getvalue())
    starts = [first for first, _ in module.SEGMENTS]
    assert named == [f"before_{first}" for first in starts]
    # Of a segment nothing else is saved: tanh's outputs are those of the saved stages.
    saved = forwards(exported, stages).count(1)
    residuals = printed.getvalue().count("output of tanh")
    assert saved <= residuals <= saved + 1  # and the last stage's output, which the loss reads
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))
    with pytest.raises(ValueError, match="6 stages, not 1"):
        module.forward([partial(layer, weights[0])], sample)


@pytest.mark.parametrize("memory", ["30%", "50%"])
@pytest.mark.parametrize("once", [False, True])
def test_jax_offloads_what_the_plan_says_and_gradients_are_equal(memory, once):
    import jax
    from jax.ad_checkpoint import print_saved_residuals

    stages = 8
    link = Platform(offload_bytes_per_second=1 << 21)
    answer = stowage.solve(chain_of(stages, no_recompute=once), link, memory=memory)
    exported = stowage.export(answer, "jax")
    operations = exported.exported.schedule.operations
    offloaded = {one.stage for one in operations if one.kind is OperationKind.OFFLOAD}
    module = module_of(exported)
    assert offloaded
    assert {last for _, last, _, host in module.PIECES if host} == offloaded
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.tanh(value @ weight)

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    named = re.findall(r"named '(\w+)'", printed.getvalue())
    starts = [first for first, _, _, _ in module.PIECES]
    assert named == [f"before_{first}" for first in starts if first - 1 not in offloaded]
    # On the device are tanh's outputs of the saved stages that are not offloaded, and no others.
    kept = sum(not again and not host for _, _, again, host in module.PIECES)
    assert printed.getvalue().count("output of tanh") == kept
    assert printed.getvalue().count("<host>") >= len(offloaded)
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))
    with pytest.raises(ValueError, match="8 stages, not 1"):
        module.forward([partial(layer, weights[0])], sample)


@pytest.mark.parametrize("has_link", [False, True])
def test_jax_keeps_the_names_of_a_way_and_gradients_are_equal(has_link):
    import jax
    from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

    stages = 6
    kept = ("wide",)
    chain = with_way(chain_of(stages), 2 << 20, kept=kept)
    slow_link = Platform(memory_bytes=0, offload_bytes_per_second=3e5)
    answer = stowage.solve(chain, slow_link if has_link else None, memory="40%")
    exported = stowage.export(answer, "jax")
    module = module_of(exported)
    in_part = {number: list(kept) for number in ways_of(exported)}
    assert in_part == module.KEPT
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.sin(checkpoint_name(jax.numpy.tanh(value @ weight), "wide"))

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    assert printed.getvalue().count("named 'wide'") == len(in_part) > 0
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))


# --- Layers of frameworks ---------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["40%", "70%"])
def test_transformers_layers_of_the_plan_run_twice(memory):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    layers = 6
    exported = export("huggingface", chain_of(layers), memory)
    module = module_of(exported)

    def model_of(layers: int) -> GPT2LMHeadModel:
        return GPT2LMHeadModel(
            GPT2Config(n_layer=layers, n_embd=16, n_head=2, vocab_size=50, n_positions=16,
                       bos_token_id=0, eos_token_id=0, use_cache=False)
        )  # fmt: skip

    model = model_of(layers).train()
    module.checkpoint_layers(model)
    # The layer's forward is what is checkpointed; hooks of its parts are within.
    counts = counted([block.mlp for block in model.transformer.h])
    ids = torch.zeros(1, 8, dtype=torch.long)
    model(ids, labels=ids).loss.backward()
    assert counts == forwards(exported, layers)
    assert set(counts) == {1, 2}
    with pytest.raises(ValueError, match="the model has 2"):
        module.checkpoint_layers(model_of(2))

    # What a Trainer does with gradient_checkpointing, as the function's docstring says.
    assert "Leave gradient_checkpointing" in module.checkpoint_layers.__doc__
    counts[:] = [0] * layers
    model.activation_checkpointing_enable()
    model(ids, labels=ids).loss.backward()
    assert counts == [2] * layers


def gradients_and_peak(model, *inputs) -> tuple[list[object], int]:
    """Of a step."""
    import torch

    from stowage.torch.meter import MemoryMeter

    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    torch.manual_seed(1)
    with MemoryMeter(torch.device("cpu")) as meter, meter.span("step"):
        found = model(*inputs)
        found = found if isinstance(found, torch.Tensor) else found[0]
        found.float().square().mean().backward()
    return [parameter.grad for parameter in model.parameters()], meter.spans["step"].peak


def assert_trains_as(plain, planned, exported: stowage.Export, *inputs) -> None:
    """With the same gradients, in less memory, where the plan saves layers in part."""
    import torch

    assert ways_of(exported)
    gradients, most = gradients_and_peak(plain, *inputs)
    found, peak = gradients_and_peak(planned, *inputs)
    assert all(torch.equal(a, b) for a, b in zip(gradients, found, strict=True))
    assert peak <= 1.03 * exported.exported.prediction.peak_memory_bytes
    assert peak < 0.9 * most


def part_chain_of_fit(model, sample, **options: object) -> Chain:
    def loss(found):
        return (found if isinstance(found, torch.Tensor) else found[0]).float().square().mean()

    import torch

    stowage.fit(model, sample, activations="50%", loss=loss, verbose=False, **options)
    chain = stowage.report(model).chain
    assert chain is not None
    assert any(stage.save_options for stage in chain.stages)
    return part_chain(chain, 0)


def test_transformers_layers_keep_the_operators_of_a_way():
    import torch
    from transformers import GPT2Config, GPT2Model

    def model_of() -> GPT2Model:
        torch.manual_seed(0)
        return GPT2Model(GPT2Config(n_layer=4, n_embd=64, n_head=2, vocab_size=50, n_positions=256,
                                    use_cache=False)).train()  # fmt: skip

    ids = torch.zeros(1, 256, dtype=torch.long)
    chain = part_chain_of_fit(model_of(), ids)
    exported = export("huggingface", chain, "50%", layers="h.{n}")
    planned = model_of()
    module_of(exported).checkpoint_layers(planned)
    assert_trains_as(model_of(), planned, exported, ids)


def run_counted(runs: Counter[int], number: int, forward, *args, **kwargs):
    runs[number] += 1
    return forward(*args, **kwargs)


def test_torch_remat_saves_the_modules_of_a_way():
    import torch
    from transformers import LlamaConfig, LlamaModel

    def model_of() -> LlamaModel:
        torch.manual_seed(0)
        return LlamaModel(
            LlamaConfig(num_hidden_layers=4, hidden_size=64, intermediate_size=256, vocab_size=50,
                        num_attention_heads=2, num_key_value_heads=2, attention_dropout=0.1,
                        use_cache=False)
        ).train()  # fmt: skip

    ids = torch.zeros(1, 256, dtype=torch.long)
    model = model_of()
    chain = part_chain_of_fit(model, ids, layers=model.layers)
    first = chain.stages[0]
    # All that the backward needs of attention, its output included, or of the gated product.
    for kept, share in ((("self_attn",), 0.7), (("mlp.act_fn",), 0.4)):
        saved = int(first.output_bytes + share * (first.saved_bytes - first.output_bytes))
        exported = export("torch-remat", part_chain(with_way(chain, saved, kept=kept), 0), "50%")
        planned = model_of()
        runs: Counter[int] = Counter()
        for number, layer in enumerate(planned.layers, 1):
            module = layer.get_submodule(kept[0])
            module.forward = partial(run_counted, runs, number, module.forward)
        module_of(exported).checkpoint_layers(planned.layers)
        assert_trains_as(model_of(), planned, exported, ids)
        assert [runs[number] for number in range(1, 5)] == forwards(exported, 4)
    with pytest.raises(ValueError, match="the plan is for 4 layers, not 2"):
        module_of(exported).checkpoint_layers(model_of().layers[:2])
    with pytest.raises(ValueError, match="pass use_cache=False"):
        planned(ids, use_cache=True)


@pytest.mark.filterwarnings("ignore")
def test_torchtitan_layers_keep_the_operators_of_a_way():
    import torch

    ids = torch.zeros(1, 64, dtype=torch.long)
    chain = part_chain_of_fit(torchtitan_model(), ids)
    exported = export("torchtitan", chain, "50%", layers="layers.{n}")
    planned = torchtitan_model()
    module_of(exported).PlannedAC.Config().build().apply(planned)
    assert_trains_as(torchtitan_model(), planned, exported, ids)


def torchtitan_model():
    """Its Llama of debug size, without attention, whose kernels need a GPU."""
    import torch
    from torchtitan.models.llama3 import llama3_configs

    class Values(torch.nn.Module):
        def forward(self, queries, keys, values, **_: object):
            return queries

    torch.manual_seed(0)
    model = llama3_configs["debugmodel"]("flex").build()
    model.init_states()
    for layer in model.layers.values():
        layer.attention.inner_attention = Values()
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, 2])
def test_torchtitan_layers_of_the_plan_run_twice(first):
    import torch

    model = torchtitan_model()
    for layer in range(first):  # as torchtitan splits a model: the other names stay
        del model.layers[str(layer)]
    layers = len(model.layers)
    counts = counted(model.layers.values())
    exported = export("torchtitan", chain_of(layers), "50%")
    module_of(exported).PlannedAC.Config().build().apply(model)
    model(torch.zeros(1, 16, dtype=torch.long)).float().sum().backward()
    assert counts == forwards(exported, layers)
    assert set(counts) == {1, 2}
    with pytest.raises(ValueError, match=f"the plan is for 3 layers, the model has {layers}"):
        module_of(export("torchtitan", chain_of(3), "50%")).PlannedAC.Config().build().apply(model)


# Megatron's own checkpoint() reads random numbers' states of a GPU; which layers it is called for
# is decided by its transformer block.
MEGATRON = """
    import json, os, sys
    import torch
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_block import (
        TransformerBlock, TransformerBlockSubmodules)
    from megatron.core.transformer.transformer_config import TransformerConfig
    from megatron.core.transformer.transformer_layer import (
        TransformerLayer, TransformerLayerSubmodules)

    class Part(torch.nn.Module):
        def __init__(self, config, **_):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)
        def forward(self, value, **_):
            return self.linear(value).tanh(), None

    def checkpoint(function, distribute, *values):
        return torch.utils.checkpoint.checkpoint(function, *values, use_reentrant=False)

    def on_the_cpu(fields, layers):
        config = TransformerConfig(
            num_layers=layers, hidden_size=16, num_attention_heads=2, use_cpu_initialization=True,
            hidden_dropout=0.0, bias_dropout_fusion=False, **fields)
        layer = ModuleSpec(module=TransformerLayer, submodules=TransformerLayerSubmodules(
            mlp=Part, mlp_bda=get_bias_dropout_add))
        block = TransformerBlock(config, TransformerBlockSubmodules(layer_specs=[layer] * layers))
        counts, of_mlps = [0] * layers, [0] * layers
        for i, one in enumerate(block.layers):
            for module, runs in (one, counts), (one.mlp, of_mlps):
                module.register_forward_pre_hook(
                    lambda *_, i=i, runs=runs: runs.__setitem__(i, runs[i] + 1))
        block(torch.randn(4, 2, 16, requires_grad=True), None).sum().backward()
        return counts, of_mlps

    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    parallel_state.initialize_model_parallel(1, 1)
    tensor_parallel.checkpoint = checkpoint
    cases = json.loads(sys.argv[1])
    print(json.dumps([on_the_cpu(fields, layers) for fields, layers in cases]))
"""

DEEPSPEED = """
    import json, os, sys
    import torch
    import deepspeed
    from deepspeed.runtime.activation_checkpointing.checkpointing import non_reentrant_checkpoint
    from deepspeed.runtime.config import DeepSpeedConfig

    def on_the_cpu(settings, layers, plain=()):
        read = DeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, **settings})
        checkpoints = read.activation_checkpointing_config.number_checkpoints
        modules = [torch.nn.Tanh() if i in plain else torch.nn.Linear(4, 4) for i in range(layers)]
        counts = [0] * layers
        for i, one in enumerate(modules):
            one.register_forward_pre_hook(
                lambda *_, i=i: counts.__setitem__(i, counts[i] + 1))
        pipeline = deepspeed.pipe.PipelineModule(
            layers=modules, num_stages=1, activation_checkpoint_func=non_reentrant_checkpoint,
            activation_checkpoint_interval=read.pipeline["activation_checkpoint_interval"])
        pipeline._precompute_checkpointable_values()
        pipeline(torch.randn(2, 4)).sum().backward()
        return counts, checkpoints

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1",
                      LOCAL_RANK="0")
    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    deepspeed.ops.__compatible_ops__.clear()  # those would be compiled
    deepspeed.init_distributed("gloo")
    print(json.dumps([on_the_cpu(*case) for case in json.loads(sys.argv[1])]))
"""


def last_line_of(script: str, argument: object) -> object:
    """What a process of its own prints last: it joins a process group."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), json.dumps(argument)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.strip().splitlines()[-1])


def arguments_of(text: str) -> dict[str, object]:
    """The fields of TransformerConfig that Megatron's training scripts make of the arguments."""
    lines = re.search(r"RECOMPUTE_ARGS=\(\n(.*)\)", text, re.DOTALL).group(1).splitlines()
    fields: dict[str, object] = {}
    for flag, *values in map(str.split, lines):
        name = flag.removeprefix("--").replace("-", "_")
        fields[name] = values if name == "recompute_modules" else values[0]
        if name == "recompute_num_layers":
            fields[name] = int(values[0])
    return fields


# Of layers that save little beside their output, segments of several take the least memory.
small_layers = partial(chain_of, saved_bytes=3 << 19)


def test_megatron_layers_of_the_plan_run_twice():
    layers = 6
    chain = small_layers(layers)
    budgets = (least_of("megatron", chain), "80%", "100%")
    exports = [export("megatron", chain, memory) for memory in budgets]
    fields = [arguments_of(exported.text) for exported in exports]
    assert [of.get("recompute_method") for of in fields] == ["uniform", "block", None]
    assert fields[0]["recompute_num_layers"] == 2
    counts = last_line_of(MEGATRON, [(of, layers) for of in fields])
    assert [of_layers for of_layers, _ in counts] == [forwards(each, layers) for each in exports]


def test_megatron_reruns_the_modules_of_a_way():
    layers = 4
    chain = with_way(chain_of(layers), 2 << 20, rerun=("mlp",))
    exported = export("megatron", chain, "80%")
    assert ways_of(exported) == dict.fromkeys(range(1, layers + 1), 1)
    fields = arguments_of(exported.text)
    assert fields == {"recompute_granularity": "selective", "recompute_modules": ["mlp"]}
    # Layers that rerun the same modules are alike, whatever their ways are called.
    names = ("", "a", "b", "c")
    renamed = [
        replace(stage, save_options=(replace(stage.save_options[0], name=name),))
        for stage, name in zip(chain.stages, names, strict=True)
    ]
    assert (
        "--recompute-modules mlp" in export("megatron", replace(chain, stages=renamed), "80%").text
    )
    [counts] = last_line_of(MEGATRON, [(fields, layers)])
    assert counts == [[1] * layers, [2] * layers]


def test_deepspeed_reads_the_settings_and_layers_of_the_plan_run_twice():
    layers = 7
    chain = small_layers(layers)
    budgets = (least_of("deepspeed", chain), "100%")
    exports = [export("deepspeed", chain, memory) for memory in budgets]
    settings = [json.loads(exported.text) for exported in exports]
    assert settings[0]["pipeline"]["activation_checkpoint_interval"] > 1
    # Of segments without parameters, which DeepSpeed saves, the target's `loses` tells.
    every = {"pipeline": {"activation_checkpoint_interval": 2}}
    found = last_line_of(DEEPSPEED, [*((of, layers) for of in settings), (every, 6, [1, 2, 3])])
    assert found.pop()[0] == [2, 2, 1, 1, 2, 2]
    assert [counts for counts, _ in found] == [forwards(exported, layers) for exported in exports]
    starts = exports[0].exported.schedule.operations
    checkpoints = sum(one.kind is OperationKind.FORWARD_CHECKPOINT for one in starts)
    assert [number for _, number in found] == [checkpoints, None]


# --- All targets ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_is_the_command_lines(target, tmp_path):
    chain = chain_of(9)
    path = tmp_path / "chain.json"
    path.write_text(chain.to_json())
    first, last = (1, 9) if target == "deepspeed" else (2, 8)
    exported = export(target, chain, "60%", layers=(first, last))
    command = [PROGRAMS / "stowage", "export", "--for", target, "--chain", path, "--memory", "60%",
               "--layers", f"{first}:{last}"]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert str(exported) == printed
    others = [*range(1, first), *range(last + 1, 10)]
    assert all(forwards(exported, 9)[stage - 1] == 1 for stage in others)
    assert exported.exported.fits
    assert exported.full is not None
    best = exported.full.prediction.makespan_seconds
    assert exported.exported.prediction.makespan_seconds >= best


@pytest.mark.parametrize("target", TARGETS)
def test_the_comparison_is_simulated(target):
    chain = chain_of(9)
    answer = stowage.solve(chain, Platform(offload_bytes_per_second=1e6), memory="60%")
    exported = stowage.export(answer, target)
    for compared in (exported.full, exported.exported, exported.usual):
        simulated = stowage.simulate(chain, answer.platform, compared.schedule)
        assert simulated.feasible == compared.fits
        for figure in ("makespan_seconds", "peak_memory_bytes"):
            assert getattr(simulated.prediction, figure) == getattr(compared.prediction, figure)
        assert compared.name in exported.text


@pytest.mark.parametrize("target", TARGETS)
def test_a_default_that_is_not_possible_is_none(target):
    chain = chain_of(9)
    once = replace(chain.stages[3], no_recompute=True)
    stages = (*chain.stages[:3], once, *chain.stages[4:])
    exported = export(target, replace(chain, stages=stages), "100%")
    chooses = target in ("pytorch", "jax")  # its user names the stages
    assert (exported.usual is not None) == chooses
    assert ("not possible: stage 4 may run once" in exported.text) != chooses


@pytest.mark.parametrize("target", TARGETS)
def test_a_budget_that_is_too_small_names_one_that_is_enough(target):
    chain = chain_of(9)
    with pytest.raises(InfeasibleError, match="bytes are enough") as error:
        export(target, chain, "1MiB")
    least = error.value.minimum_memory_bytes
    assert stowage.export(stowage.solve(chain, memory=least), target).exported.fits
    with pytest.raises(InfeasibleError):
        stowage.export(stowage.solve(chain, memory=least - 1), target)


def test_layers_are_found_by_their_names():
    layers = [f"model.layers.{i}.{part}" for i in range(3) for part in "ab"]
    parts = ["model.embed", *layers, "head"]
    chain = chain_of(len(parts))
    stages = [replace(stage, name=name) for stage, name in zip(chain.stages, parts, strict=True)]
    named = replace(chain, stages=tuple(stages))
    groups = [f"layer{i}" for i in range(3) for _ in range(2)]
    grouped = replace(
        named,
        stages=(
            stages[0],
            *(replace(s, fusion_group=g) for s, g in zip(stages[1:-1], groups, strict=True)),
            stages[-1],
        ),
    )
    found = export("torchtitan", named, "60%", layers="layers.{n}")
    assert "LAYERS = 3" in found.text
    assert found == export("torchtitan", grouped, "60%", layers=(2, 7))


def test_errors_name_the_argument():
    answer = stowage.solve(chain_of(4), memory="50%")
    for options, field in (
        ({"target": "keras"}, "target"),
        ({"layers": (0, 4)}, "layers"),
        ({"layers": (3, 5)}, "layers"),
        ({"layers": "block.{n}"}, "layers"),
        ({"target": "deepspeed", "layers": (2, 4)}, "layers"),
        ({"working_memory": "much"}, "working_memory"),
    ):
        with pytest.raises(InvalidRequestError) as error:
            stowage.export(answer, **{"target": "jax", **options})
        assert [violation.field for violation in error.value.violations] == [field]
    loaded = stowage.Answer.from_json(answer.to_json())
    with pytest.raises(InvalidRequestError, match="chain: is missing"):
        stowage.export(loaded, "jax")
    assert stowage.export(loaded, "jax", chain=chain_of(4)).exported.fits

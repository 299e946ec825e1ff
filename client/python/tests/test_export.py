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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, 2])
def test_torchtitan_layers_of_the_plan_run_twice(first):
    import torch
    from torchtitan.models.llama3 import llama3_configs

    class Values(torch.nn.Module):
        """In the place of attention, whose kernels need a GPU."""

        def forward(self, queries, keys, values, **_: object):
            return queries

    model = llama3_configs["debugmodel"]("flex").build()
    model.init_states()
    for layer in range(first):  # as torchtitan splits a model: the other names stay
        del model.layers[str(layer)]
    layers = len(model.layers)
    for layer in model.layers.values():
        layer.attention.inner_attention = Values()
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
        counts = [0] * layers
        for i, one in enumerate(block.layers):
            one.register_forward_pre_hook(
                lambda *_, i=i: counts.__setitem__(i, counts[i] + 1))
        block(torch.randn(4, 2, 16, requires_grad=True), None).sum().backward()
        return counts

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
    words = re.search(r"RECOMPUTE_ARGS=\(\n(.*)\)", text, re.DOTALL).group(1).split()
    fields = dict(zip(words[::2], words[1::2], strict=True))
    named = {flag.removeprefix("--").replace("-", "_"): value for flag, value in fields.items()}
    return {k: int(v) if k == "recompute_num_layers" else v for k, v in named.items()}


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
    assert counts == [forwards(exported, layers) for exported in exports]


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

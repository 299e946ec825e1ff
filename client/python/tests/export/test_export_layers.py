"""Settings and code for frameworks' own layers, each run by its framework."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from exports import (
    counted,
    export,
    forwards,
    least_of,
    module_of,
    part_chain,
    ways_of,
    with_way,
)
from support import chain_of

import stowage
from stowage import Chain, OperationKind


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

    from stowage.torch.measuring.meter import MemoryMeter

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

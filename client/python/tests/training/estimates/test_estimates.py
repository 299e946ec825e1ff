"""Estimates of a step's memory, beside steps that run."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
import transformers
from device import DEVICE
from models import Example
from torch import Tensor, nn
from torch.nn import functional
from zoo import ZOO, make

import stowage
from stowage.estimates import Estimate
from stowage.estimates.__main__ import main
from stowage.torch.arguments import loss_of
from stowage.torch.measuring.meter import MemoryMeter

MIB = 1 << 20
OPTIMIZERS: dict[str, Callable | None] = {
    "AdamW": torch.optim.AdamW,
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "none": None,
    "Adagrad": torch.optim.Adagrad,
}
# Their code reads what tensors contain.
READERS = ("opt", "wav2vec2", "detr")
# A CPU's kernels of their convolutions take workspaces, which are no tensors.
WITH_WORKSPACES = ("segformer", "convnext")
JOBS = [
    (name, list(OPTIMIZERS)[i % 4], torch.bfloat16 if i % 3 == 2 else None)
    for i, name in enumerate(n for n in ZOO if n not in READERS + WITH_WORKSPACES)
]


def measured(example: Example, optimizer: Callable | None, autocast: torch.dtype | None) -> int:
    """The peak of a step that has had one before it, with weights and buffers."""
    model = example.model

    def step(changes: torch.optim.Optimizer | None) -> None:
        by = torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext()
        with by:
            loss = loss_of(example.forward())
        torch.clear_autocast_cache()
        loss.backward()
        del loss
        if changes is not None:
            changes.step()
        model.zero_grad()

    held = {t.untyped_storage().data_ptr(): t for t in (*model.parameters(), *model.buffers())}
    with MemoryMeter(torch.device("cpu")) as meter:
        changes = optimizer(model.parameters()) if optimizer is not None else None
        step(changes)
        with meter.span("step"):
            step(changes)
    return sum(t.untyped_storage().nbytes() for t in held.values()) + meter.spans["step"].peak


def size_of(found: Estimate, name: str) -> int:
    return sum(c.bytes for c in found.peak.components if c.name == name)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
@pytest.mark.parametrize(("name", "optimizer", "autocast"), JOBS, ids=lambda value: str(value))
def test_the_peak_is_that_of_a_step(name, optimizer, autocast):
    example = make(name)
    makes = OPTIMIZERS[optimizer]
    found = stowage.estimate(
        example.model, example.sample, optimizer=makes, autocast=autocast, device="cpu"
    )
    peak = measured(example, makes, autocast)
    assert found.peak_bytes - size_of(found, "sample") == pytest.approx(peak, rel=0.05)


def gpt2(**more: object) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=100, n_positions=512, use_cache=False,
        bos_token_id=0, eos_token_id=0, **more,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def words(*shape: int) -> dict[str, Tensor]:
    ids = torch.zeros(shape, dtype=torch.long)
    return {"input_ids": ids, "labels": ids}


def test_a_model_is_afterwards_as_it_was():
    model = gpt2()
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    contents = {name: tensor.clone() for name, tensor in tensors.items()}
    state = torch.get_rng_state()
    stowage.estimate(model, words(2, 32), optimizer=torch.optim.AdamW)
    with pytest.raises(ZeroDivisionError):
        stowage.estimate(model, words(2, 32), loss=lambda output: output.loss / 0 / (1 // 0))
    assert torch.equal(torch.get_rng_state(), state)
    after = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert all(after[name] is tensor for name, tensor in tensors.items())
    assert all(torch.equal(after[name], content) for name, content in contents.items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    assert model.lm_head.weight is model.transformer.wte.weight
    model(**words(1, 4)).loss.backward()


def test_components_are_those_of_the_model():
    model = gpt2()
    model.transformer.h[0].requires_grad_(False)
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    found = stowage.estimate(model, words(1, 4), optimizer=torch.optim.AdamW)
    assert [peak.part for peak in found.peaks] == ["forward", "backward", "optimizer"]
    sizes = {c.name: c.bytes for c in found.peaks[2].components}
    assert sizes["weights"] == sum(p.nbytes for p in model.parameters()) + sum(
        buffer.nbytes for buffer in model.buffers()
    )
    assert sizes["gradients"] == trained
    steps = 4 * sum(p.requires_grad for p in model.parameters())  # a number for each
    assert sizes["optimizer"] == 2 * trained + steps
    assert sizes["sample"] == 4 * 8  # one tensor is both input and labels
    assert found.peak is found.peaks[2]
    assert "optimizer" in str(found).splitlines()[-2]


def assert_is_a_steps(model: nn.Module, sample: object, **options: object) -> None:
    found = stowage.estimate(model, sample, optimizer=torch.optim.AdamW, device="cpu", **options)
    peak = measured(Example(model, sample), torch.optim.AdamW, None)
    assert found.peak_bytes - size_of(found, "sample") == pytest.approx(peak, rel=0.02)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpointed_layers_keep_nothing(is_reentrant):
    model = gpt2()
    plain = stowage.estimate(model, words(4, 256), device="cpu").peak_bytes
    model.gradient_checkpointing_enable({"use_reentrant": is_reentrant})
    assert_is_a_steps(model, words(4, 256))
    assert stowage.estimate(model, words(4, 256), device="cpu").peak_bytes < 0.7 * plain


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpointed_layers_run_again_as_on_a_gpu(is_reentrant):
    config = transformers.LlamaConfig(
        num_hidden_layers=16, hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32000, max_position_embeddings=2048, use_cache=False,
    )  # fmt: skip

    def make_model() -> nn.Module:
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).train()
        model.gradient_checkpointing_enable({"use_reentrant": is_reentrant})
        return model

    found = stowage.estimate(make_model, words(4, 2048))
    # Of activations, as seen on an H200: client/python/README.md, "On a GPU".
    assert size_of(found, "activations") + size_of(found, "gradients") == pytest.approx(
        3641 << 20, rel=0.03 if is_reentrant else 0.001
    )


def test_dropout_keeps_a_byte_an_element():
    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.dropout = nn.Parameter(torch.ones(())), nn.Dropout(0.1)

        def forward(self, value: Tensor) -> Tensor:
            for _ in range(8):
                value = self.dropout(value + self.scale)
            return value

    sample = torch.empty(1 << 20)
    on_cpu, on_gpu = (
        size_of(stowage.estimate(Drops(), sample, device=device), "activations")
        for device in ("cpu", "cuda")
    )
    assert on_cpu - on_gpu == pytest.approx(8 * 3 << 20, rel=0.1)
    model = Drops().eval()
    assert size_of(stowage.estimate(model, sample), "activations") < on_gpu


def test_an_estimate_leaves_no_copy_of_the_model():
    class Model(nn.Linear):
        pass

    made: list[weakref.ref[nn.Module]] = []

    def make_model() -> nn.Module:
        model = Model(8, 8)
        made.append(weakref.ref(model))
        return model

    for _ in range(3):
        stowage.estimate(make_model, torch.empty(2, 8), optimizer=torch.optim.AdamW, gpu="T4")
    gc.collect()
    assert not any(isinstance(thing, Model) for thing in gc.get_objects())
    assert [model() for model in made] == [None] * 3


def test_state_that_is_made_anew_is_counted():
    class Momentum(torch.optim.Optimizer):
        def __init__(self, parameters: object, *, in_place: bool) -> None:
            super().__init__(parameters, {})
            self._in_place = in_place

        @torch.no_grad()
        def step(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                elif self._in_place:
                    state["momentum"].mul_(0.9).add_(parameter.grad)
                else:
                    state["momentum"] = state["momentum"] * 0.9 + parameter.grad
                parameter.sub_(state["momentum"])

    def found(*, in_place: bool) -> Estimate:
        model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(8)))
        return stowage.estimate(
            model, torch.empty(2, 64), optimizer=lambda p: Momentum(p, in_place=in_place)
        )

    both = found(in_place=True), found(in_place=False)
    for one in both:
        assert {c.name: c.bytes for c in one.peaks[0].components}["optimizer"] == 8 * 64 * 64 * 4
    assert both[1].peaks[2].bytes - both[0].peaks[2].bytes <= 2 * 64 * 64 * 4


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
def test_biases_are_added_in_place():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(64, 64), nn.Linear(64, 2048)

        def forward(self, value: Tensor) -> Tensor:
            return self.outer(self.inner(value).transpose(0, 1))  # which is not contiguous

    assert_is_a_steps(Model(), torch.randn(32, 64, 64))


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
def test_what_a_model_drops_is_gone():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
            self.unused = nn.Linear(512, 512)  # gets no gradient, so no state

        def forward(self, value: Tensor) -> Tensor:
            for layer in self.layers:
                layer(value.tanh()).tanh()  # nobody reads it
                value = layer(value).tanh()
            return value

    assert_is_a_steps(Model(), torch.randn(2048, 64))


def test_what_a_step_leaves_in_a_model_is_not_the_callers():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.table, self.seen = nn.Linear(4, 4), None, []
            self.register_buffer("late", None)

        def forward(self, value: Tensor) -> Tensor:
            if self.table is None:
                self.table = self.late = torch.ones(4)
            self.seen.append(self.linear(value) * self.table * self.late)
            return self.seen[-1]

    model = Model()
    stowage.estimate(model, torch.empty(2, 4))
    assert model.table is None
    assert model.late is None
    assert model.seen == []
    assert type(model(torch.ones(2, 4))) is Tensor


def test_a_loss_may_have_parameters():
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1024))

        def forward(self, output: Tensor) -> Tensor:
            return (output * self.weight).sum()

    loss = Weighted()
    model = nn.Linear(4, 1024)
    found = stowage.estimate(model, torch.empty(2, 4), loss=loss, optimizer=torch.optim.AdamW)
    sizes = {c.name: c.bytes for c in found.peaks[2].components}
    assert sizes["weights"] == sizes["gradients"] == (4 + 1 + 1) * 1024 * 4
    assert loss.weight.grad is None
    with pytest.raises(stowage.StowageError, match=r"none of the model's, at .*as a module"):
        stowage.estimate(model, torch.empty(2, 4), loss=lambda output: loss(output))
    assert loss.weight.grad is None


def test_what_is_replaced_for_an_estimate_is_put_back():
    masks = transformers.masking_utils
    before = masks.find_packed_sequence_indices, functional.scaled_dot_product_attention
    threads = [
        threading.Thread(target=stowage.estimate, args=(gpt2, words(1, 8))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = masks.find_packed_sequence_indices, functional.scaled_dot_product_attention
    assert after == before
    assert not nn.modules.module._global_forward_hooks


def test_nothing_is_allocated():
    def make_large() -> nn.Module:
        return nn.Sequential(*(nn.Linear(1 << 17, 1 << 17, bias=False) for _ in range(16)))

    found = stowage.estimate(make_large, torch.empty(8, 1 << 17, device="meta"))
    assert size_of(found, "weights") == 1 << 40
    assert size_of(found, "gradients") > 1 << 39


def test_a_peak_names_the_module_and_the_operator():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = nn.Linear(4, 4), nn.Linear(4, 4096)

        def forward(self, value: Tensor) -> Tensor:
            with torch.no_grad():  # so that it is gone afterwards
                self.large(value)
            return self.small(value)

    forward, backward = stowage.estimate(Model(), torch.empty(1024, 4)).peaks
    assert forward.place == "large, aten.addmm.default"
    assert backward.place.startswith("small, ")


@pytest.mark.parametrize("name", READERS)
def test_code_that_reads_contents_is_refused_with_its_line(name):
    example = make(name)
    with pytest.raises(stowage.StowageError, match=rf"modeling_{name}\.py:\d+ \(if .*stowage\.fit"):
        stowage.estimate(example.model, example.sample)
    assert torch.isfinite(loss_of(example.forward()))


def test_arguments_that_cannot_be_are_refused():
    model = nn.Linear(4, 4)
    with pytest.raises(TypeError, match="optimizer: is one that has parameters"):
        stowage.estimate(model, torch.empty(4), optimizer=torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match="device: is 'tpu'"):
        stowage.estimate(model, torch.empty(4), device="tpu")
    with pytest.raises(TypeError, match="model: made int"):
        stowage.estimate(lambda: 3, torch.empty(4))
    groups = [{"params": [model.weight]}]
    with pytest.raises(
        stowage.StowageError, match="optimizer: has parameters that it was not given"
    ):
        stowage.estimate(model, torch.empty(4), optimizer=lambda _: torch.optim.AdamW(groups))
    with pytest.raises(stowage.StowageError, match="the optimizer reads what a tensor contains"):
        stowage.estimate(model, torch.empty(4), optimizer=torch.optim.Adafactor)
    assert "in eval mode" in str(stowage.estimate(model.eval(), torch.empty(4)))


# --- As on a GPU ------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, kind: torch.dtype, *, masked: bool = False, heads: int = 4) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=kind))
        self._kind, self._masked, self._heads = kind, masked, heads

    def forward(self, value: Tensor) -> Tensor:
        query = value.to(self._kind) * self.scale
        key = query[:, : self._heads]
        mask = torch.ones(1, 1, *[query.shape[2]] * 2, dtype=torch.bool) if self._masked else None
        return functional.scaled_dot_product_attention(
            query, key, key, mask, is_causal=not self._masked, enable_gqa=self._heads != 4
        )


def activations_of(model: nn.Module, *, device: str = "cuda") -> int:
    sample = torch.empty(1, 4, 4096, 64)
    return size_of(stowage.estimate(model, sample, device=device), "activations")


# Of the products of four heads, a number each.
PRODUCTS = 4 * 4096 * 4096


def test_attention_keeps_no_products_where_a_gpu_keeps_none():
    assert activations_of(Attention(torch.bfloat16)) < PRODUCTS / 4
    assert activations_of(Attention(torch.bfloat16, heads=2)) < PRODUCTS / 4
    assert activations_of(Attention(torch.float32)) < PRODUCTS / 2
    # A mask of booleans becomes one of numbers, of which the heads share one.
    masked = activations_of(Attention(torch.bfloat16, masked=True))
    assert 4096 * 4096 * 3 <= masked < PRODUCTS * 2
    assert activations_of(Attention(torch.float32, heads=2)) > 2 * PRODUCTS * 4


def test_attention_of_torchs_own_layers_is_a_gpus():
    layer = nn.TransformerEncoderLayer(256, 4, 64, dropout=0.1, batch_first=True)
    found = stowage.estimate(layer, torch.empty(1, 4096, 256), autocast=torch.bfloat16)
    assert size_of(found, "activations") < PRODUCTS


def test_attention_keeps_products_where_a_gpu_does():
    class Heads(nn.Module):
        def __init__(self, head: int, of_value: int, kind: torch.dtype) -> None:
            super().__init__()
            self.head, self.of_value, self.kind = head, of_value, kind
            self.scale = nn.Parameter(torch.ones((), dtype=kind))

        def forward(self, value: Tensor) -> Tensor:
            value = value.to(self.kind) * self.scale
            query = value[..., : self.head]
            return functional.scaled_dot_product_attention(
                query, query, value[..., : self.of_value], is_causal=True
            )

    assert activations_of(Heads(64, 32, torch.bfloat16)) < PRODUCTS / 2
    assert activations_of(Heads(20, 20, torch.bfloat16)) < PRODUCTS / 2  # padded
    assert activations_of(Heads(18, 18, torch.float32)) > PRODUCTS
    assert activations_of(Heads(64, 64, torch.float64)) > PRODUCTS


def test_an_optimizer_with_a_tensor_as_rate_changes_one_parameter_at_a_time():
    def of_tensor(parameters):
        return torch.optim.AdamW(parameters, lr=torch.tensor(1e-3))

    assert len(stowage.estimate(gpt2, words(1, 4), optimizer=of_tensor).peaks) == 3


def test_autocast_keeps_what_a_gpu_keeps():
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(64, 1024), nn.RMSNorm(1024)

        def forward(self, value: Tensor) -> Tensor:
            value = self.norm(self.linear(value))
            kinds.append(value.dtype)
            return value

    kinds: list[torch.dtype] = []
    for device in ("cuda", "cpu"):
        stowage.estimate(Norm(), torch.empty(8, 64), autocast=torch.bfloat16, device=device)
    assert kinds == [torch.float32, torch.bfloat16]


def test_an_optimizer_changes_all_parameters_at_once():
    def at_step(device: str) -> int:
        found = stowage.estimate(
            gpt2, words(1, 4), optimizer=torch.optim.AdamW, device=device
        ).peaks[2]
        return {c.name: c.bytes for c in found.components}["activations"]

    weights = sum(parameter.nbytes for parameter in gpt2().parameters())
    assert weights <= at_step("cuda") < 1.2 * weights
    assert at_step("cpu") < 0.6 * weights


# --- The command ------------------------------------------------------------------------------

# About as many parameters as Llama 3.1 8B has, in half as many layers.
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 28672,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return str(path)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command_says_whether_a_model_fits(config, capsys):
    job = ("--config", config, "--batch", "1", "--weights", "bfloat16")
    code, out, _ = run(capsys, *job, "--length", "8192", "--gpu", "H100-80G")
    assert code == 3
    assert "H100-80G: 76.26 GiB usable of 79.65 GiB: fits with a plan, +" in out
    assert run(capsys, *job, "--length", "8192", "--gpu", "L4")[0] == 2
    code, out, _ = run(capsys, *job, "--length", "1024", "--gpu", "b200")
    assert code == 0
    assert "B200: 172.00 GiB usable of 178.35 GiB: fits, about " in out
    code, out, _ = run(capsys, *job, "--length", "128", "--optimizer", "none")
    assert code == 0
    assert out.splitlines()[0].split() == [
        *("peak", "of", "total", "weights", "activations", "sample", "gradients"),
    ]


@pytest.mark.parametrize(
    ("changes", "more", "says"),
    [
        ({}, ("--gpu", "H100"), "gpu: 'H100' is not known; the names are B200, "),
        ({}, ("--length", "9000"), "length: is 9000, and .* has max_position_embeddings of 8192"),
        ({"architectures": ["Nothing"]}, (), "names no model of transformers .*'Nothing'"),
        ({"architectures": None}, (), "names no model of transformers"),
        ({"architectures": {"a": 1}}, (), "names no model of transformers"),
        ({"architectures": ["pipeline"]}, (), "names no model of transformers"),
        ({"architectures": ["ViTForImageClassification"]}, (), "is no language model"),
        ({"architectures": ["BertModel"]}, (), "is no language model"),
        ({"hidden_size": "x"}, (), "is no LlamaConfig"),
        ({"num_attention_heads": 0}, (), r"a step of the model fails|is no LlamaConfig"),
        ({"quantization_config": {"bits": 4}}, (), "has a quantization_config"),
        ({}, ("--batch", "9" * 20), "a step of the model fails|is '9"),
    ],
)
def test_the_command_says_what_is_wrong(config, capsys, changes, more, says):
    with open(config, "w") as file:
        json.dump({**LLAMA, **changes}, file)
    code, _, err = run(capsys, "--config", config, "--batch", "1", "--length", "128", *more)
    assert code == 1
    assert re.search(says, err)


def test_a_wrong_command_is_no_verdict(tmp_path, capsys):
    none = ("--config", str(tmp_path / "none.json"))
    command = [sys.executable, "-m", "stowage.estimates", *none, "--batch", "1", "--length", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "No such file" in ran.stderr
    for more, says in (
        (("--batch", "0"), "argument --batch: is '0'; it must be a whole number from 1 on"),
        ((), "the following arguments are required: --batch, --length"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*none, *more])
        assert ended.value.code == 1
        assert says in capsys.readouterr().err

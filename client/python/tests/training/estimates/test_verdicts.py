"""Whether a step fits a GPU, beside what `stowage.fit` measures and what was seen on a GPU."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torchvision
import transformers
from device import DEVICE
from support import PROGRAMS
from torch import nn
from zoo import make

import stowage
from stowage.estimates import Estimate, Gpu, Verdict
from stowage.estimates.__main__ import main
from stowage.estimates.hardware.gpus import gpu_of
from stowage.estimates.verdicts import verdict_of
from stowage.torch.arguments import loss_of
from stowage.torch.choosing.budget import MemoryUse

FITS, WITH_A_PLAN, DOES_NOT = "fits", "fits with a plan", "does not fit"
# Chains, layers that are replayed apart, convolutions; a CPU's workspaces are no tensors.
MODELS = (
    *("gpt2", "llama", "mixtral", "bert", "albert", "deberta", "vit", "clip", "whisper", "t5"),
    *("half_frozen_gpt2", "mamba", "swin3d", "efficientnet"),
)


def card(usable_bytes: int, name: str = "H200") -> Gpu:
    """A GPU with so much left for a step."""
    memory = (usable_bytes + (1 << 30)) * 100 // 97
    made = replace(gpu_of(name), memory_bytes=memory)
    while made.usable_bytes < usable_bytes:
        made = replace(made, memory_bytes=made.memory_bytes + 1)
    assert made.usable_bytes == usable_bytes
    return made


def estimate(model: Any, sample: Any, *usable: int, **options: Any) -> Estimate:
    options = {"optimizer": torch.optim.SGD, "device": "cpu", **options}
    return stowage.estimate(model, sample, gpu=[card(size) for size in usable], **options)


def verdict(name: str, share: float) -> tuple[Verdict, Estimate]:
    """With so much of what activations take beyond all else."""
    example = make(name)
    plain = estimate(example.model, example.sample)
    usable = fixed_of(plain) + int(share * (plain.peak_bytes - fixed_of(plain)))
    found = estimate(example.model, example.sample, usable)
    assert found.peak_bytes == plain.peak_bytes
    return found.verdicts[0], found


def fixed_of(found: Estimate) -> int:
    """Weights, gradients, the optimizer's state and the sample."""
    return sum(c.bytes for c in found.peaks[-1].components if c.name != "activations")


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
@pytest.mark.parametrize("name", MODELS)
def test_the_chain_is_the_one_that_fit_measures(name):
    found, _ = verdict(name, 0.7)
    example = make(name)
    fitted = stowage.fit(
        example.model, example.sample, activations="50%", loss=loss_of, measure=False, verbose=False
    )
    measured = fitted.profile.chain
    assert [stage.name for stage in found.chain.stages] == [stage.name for stage in measured.stages]
    for field in ("output_bytes", "saved_bytes", "gradient_bytes"):
        estimated = [getattr(stage, field) for stage in found.chain.stages]
        assert estimated == pytest.approx([getattr(s, field) for s in measured.stages], rel=0.01)
    assert all(stage.save_options for stage in found.chain.stages) or name not in ("bert", "t5")


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "vit", "t5"])
def test_a_step_with_the_plan_takes_what_the_gpu_has(name):
    found, whole = verdict(name, 0.5)
    assert found.outcome == WITH_A_PLAN
    assert found.slowdown >= 0
    assert found.seconds > 0
    usable = found.gpu.usable_bytes
    simulated = stowage.simulate(found.chain, found.answer.platform, found.answer.schedule)
    makespan = found.answer.prediction.makespan_seconds
    assert simulated.prediction.makespan_seconds == pytest.approx(makespan)
    assert fixed_of(whole) < found.plan_bytes <= usable
    example = make(name)
    fitted = stowage.fit(
        example.model,
        example.sample,
        activations=usable - fixed_of(whole),
        loss=loss_of,
        verbose=False,
    )
    assert fitted.measured_peak_bytes <= 1.05 * (usable - fixed_of(whole))


def test_each_verdict_begins_where_the_other_ends():
    example = make("llama")
    plain = estimate(example.model, example.sample)
    peak, little = plain.peak_bytes, fixed_of(plain) + 1
    found = estimate(example.model, example.sample, peak, peak - 1, little).verdicts
    assert [one.outcome for one in found] == [FITS, WITH_A_PLAN, DOES_NOT]
    assert found[0].answer is None
    least = found[2].least_bytes
    assert least > little
    sizes = least, int(0.95 * least), (least + peak) // 2
    found = estimate(example.model, example.sample, *sizes).verdicts
    assert [one.outcome for one in found] == [WITH_A_PLAN, DOES_NOT, WITH_A_PLAN]
    assert found[0].slowdown >= found[2].slowdown


def test_what_no_plan_changes_is_named():
    # Layers so wide that nearly all is weights.
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    sample = torch.empty(1, 512)
    by_adam = {"optimizer": torch.optim.AdamW}
    plain = estimate(model, sample, **by_adam)
    (found,) = estimate(model, sample, plain.peak_bytes // 2, **by_adam).verdicts
    assert found.outcome == DOES_NOT
    assert found.least_bytes == plain.peaks[-1].bytes
    assert "shard the optimizer's state" in str(found)
    (found,) = estimate(model, sample, plain.peak_bytes // 8).verdicts
    assert "optimizer's state" not in str(found)


def test_a_plan_that_fits_does_not_help_where_the_optimizers_step_does_not(monkeypatch):
    gpu, plain = card(1 << 30), 2 << 30
    planned = Verdict(gpu, WITH_A_PLAN, plain)
    monkeypatch.setattr("stowage.estimates.verdicts._planned", lambda *_, **__: planned)

    def found(after: int) -> Verdict:
        use = MemoryUse(weights=1 << 20, gradients=1 << 20, optimizer=1 << 20)
        return verdict_of(gpu, plain, use, after, object, offload=False)

    assert found(gpu.usable_bytes) is planned
    without = found(gpu.usable_bytes + 1)
    assert (without.outcome, without.least_bytes) == (DOES_NOT, gpu.usable_bytes + 1)


def test_a_model_without_layers_gets_a_verdict_too():
    model = nn.Linear(16, 16)
    plain = estimate(model, torch.empty(4096, 16), optimizer=None)
    found = estimate(model, torch.empty(4096, 16), plain.peak_bytes - 1, optimizer=None)
    assert found.verdicts[0].outcome == DOES_NOT
    assert found.verdicts[0].least_bytes == plain.peak_bytes
    assert "no plan is looked for: the model has no layers" in str(found)


def test_a_smaller_batch_is_advised_where_activations_are_the_most():
    # Half of the step is one layer, which every plan needs whole.
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)), nn.Linear(64, 4096))
    plain = estimate(model, torch.empty(4096, 64))
    (found,) = estimate(model, torch.empty(4096, 64), plain.peak_bytes // 4).verdicts
    assert found.outcome == DOES_NOT
    assert found.advice == "a smaller batch or shorter samples would help most"


def test_plans_send_to_the_host_where_they_may():
    example = make("gpt2")
    plain = estimate(example.model, example.sample)
    usable = fixed_of(plain) + (plain.peak_bytes - fixed_of(plain)) // 2
    with_host, without = (
        estimate(example.model, example.sample, usable, offload=offload).verdicts[0]
        for offload in (True, False)
    )
    assert without.outcome == WITH_A_PLAN
    assert without.host_bytes == 0
    assert "host" not in str(without)
    assert with_host.slowdown <= without.slowdown + 0.005
    assert with_host.host_bytes == with_host.answer.prediction.peak_host_bytes


def test_grouped_convolutions_take_their_own_products():
    def seconds(groups: int) -> float:
        layers = (nn.Conv2d(256, 256, 7, padding=3, groups=groups) for _ in range(4))
        found = estimate(nn.Sequential(*layers), torch.empty(64, 256, 28, 28), 1 << 40)
        return found.verdicts[0].seconds

    assert 20 * seconds(256) < seconds(1)


def test_what_a_step_leaves_in_the_model_stays():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.mask = nn.ModuleList(mlp()), None

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            if self.mask is None:
                self.mask = torch.ones(4096, 1024)
            for layer in self.layers:
                value = layer(value)
            return value + self.mask[0, 0]

    plain = estimate(Model(), torch.empty(4096, 64))
    least = estimate(Model(), torch.empty(4096, 64), plain.peak_bytes // 2).verdicts[0]
    assert plain.peak_bytes > least.least_bytes > 4 * 4096 * 1024
    found = estimate(Model(), torch.empty(4096, 64), least.least_bytes, least.least_bytes - 1)
    assert [one.outcome for one in found.verdicts] == [WITH_A_PLAN, DOES_NOT]
    assert found.verdicts[0].plan_bytes > 4 * 4096 * 1024


def test_the_least_is_the_same_whatever_the_gpu_has():
    example = make("gpt2")
    plain = estimate(example.model, example.sample)
    sizes = fixed_of(plain) // 2, fixed_of(plain), fixed_of(plain) + 1000
    found = estimate(example.model, example.sample, *sizes).verdicts
    assert len({one.least_bytes for one in found}) == 1
    assert found[0].least_bytes > sizes[2]
    (least,) = estimate(example.model, example.sample, found[0].least_bytes).verdicts
    assert least.outcome == WITH_A_PLAN


def test_a_model_that_fails_when_it_runs_again_is_estimated():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.losses = mlp(), []

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            self.losses.append(self.layers(value).sum())
            return sum(self.losses)

    plain = estimate(Model(), torch.empty(64, 64))
    found = estimate(Model(), torch.empty(64, 64), plain.peak_bytes, plain.peak_bytes - 1)
    assert [one.outcome for one in found.verdicts] == [FITS, DOES_NOT]
    assert found.verdicts[0].seconds is None
    assert "another step fails, so none is timed: Trying to backward" in str(found)
    assert "no plan is looked for: Trying to backward" in str(found)


def test_a_model_that_checkpoints_itself_is_told():
    example = make("gpt2")
    example.model.gradient_checkpointing_enable({"use_reentrant": False})
    plain = estimate(example.model, example.sample)
    found = estimate(example.model, example.sample, plain.peak_bytes - 1)
    assert found.verdicts[0].outcome == DOES_NOT
    assert "checkpoints its layers itself: turn that off to have a plan" in str(found)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("memory_bytes", value) for value in (-1, 48, 1e10, 1 << 62)),
        ("tf32_flops", 0),
        ("link_bytes_per_second", math.inf),
        ("bytes_per_second", math.nan),
    ],
)
def test_a_gpu_that_cannot_be_is_refused(field, value):
    with pytest.raises(stowage.InvalidRequestError, match=f"{field}: is .*; it must be"):
        replace(gpu_of("T4"), **{field: value})


def test_bfloat16_is_slow_where_a_gpu_lacks_it():
    model, sample = nn.Linear(2048, 2048), torch.empty(2048, 2048)
    of = {
        kind: stowage.estimate(model, sample, autocast=kind, gpu=["T4", "L4"]).verdicts
        for kind in (torch.float16, torch.bfloat16)
    }
    assert of[torch.bfloat16][0].seconds > 3 * of[torch.float16][0].seconds
    assert of[torch.bfloat16][1].seconds == of[torch.float16][1].seconds


def test_a_gpu_is_named_or_made():
    model, sample = nn.Linear(4, 4), torch.empty(2, 4)
    found = stowage.estimate(model, sample, gpu=["t4", gpu_of("L4"), "T4"])
    assert [one.gpu.name for one in found.verdicts] == ["T4", "L4", "T4"]
    assert all(one.outcome == FITS for one in found.verdicts)
    assert found.verdicts[0].seconds >= found.verdicts[1].seconds
    assert "T4: 13.55 GiB usable of 15.00 GiB: fits, about" in str(found)
    with pytest.raises(stowage.InvalidRequestError, match="gpu: 'H300' is not known; the names"):
        stowage.estimate(model, sample, gpu="H300")


# --- Seen on a GPU: client/python/README.md, "On a GPU" ---------------------------------------


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        num_hidden_layers=16, hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32000, max_position_embeddings=2048, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def words(*shape: int) -> dict[str, torch.Tensor]:
    ids = torch.zeros(shape, dtype=torch.long)
    return {"input_ids": ids, "labels": ids}


# MiB of a plain step's activations and milliseconds that it took; how far off estimates are.
SEEN = {
    "llama": (llama, words(4, 2048), None, 16714, 0.001, 135.7, 0.1),
    "resnet50": (
        torchvision.models.resnet50,
        torch.empty(128, 3, 224, 224),
        torch.bfloat16,
        *(5461, 0.01),
        *(29.8, 0.5),  # its kernels are short
    ),
    "gpt2": (gpt2, words(8, 1024), torch.bfloat16, 11983, 0.07, 59.2, 0.45),
}


@pytest.mark.parametrize("name", SEEN)
def test_an_h200_took_as_much(name):
    make_model, sample, autocast, mib, off, milliseconds, late = SEEN[name]
    found = stowage.estimate(make_model, sample, autocast=autocast, gpu="H200")
    fixed = {c.name: c.bytes for c in found.peak.components}
    activations = found.peak_bytes - fixed["weights"] - fixed["sample"]
    assert activations / (1 << 20) == pytest.approx(mib, rel=off)
    assert 1e3 * found.verdicts[0].seconds == pytest.approx(milliseconds, rel=late)


# --- The largest batch ------------------------------------------------------------------------


def batches(model: Callable[[], nn.Module], usable: int, **options: Any) -> Any:
    options = {"optimizer": torch.optim.SGD, "device": "cpu", **options}
    return stowage.largest_batch(model, lambda size: torch.empty(size, 64), card(usable), **options)


def mlp() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6)))


def test_the_largest_batch_is_found():
    usable = estimate(mlp, torch.empty(37, 64)).peak_bytes + 1
    found = batches(mlp, usable)
    largest = found.largest.size
    assert largest >= 37
    assert {b.size: b.fits for b in found.tried}[largest + 1] is False
    assert [b.size for b in found.tried] == sorted(b.size for b in found.tried)
    outcomes = [b.verdict.outcome for b in found.tried]
    assert outcomes == sorted(outcomes, key=[FITS, WITH_A_PLAN, DOES_NOT].index)
    assert found.fastest.samples_per_second == max(b.samples_per_second for b in found.tried)
    assert found.fastest.size / found.fastest.verdict.seconds == found.fastest.samples_per_second
    assert f"{largest:8}" in str(found)
    assert str(found).count("(largest)") == str(found).count("(fastest)") == 1


@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_no_batch_is_larger_than_asked_for(most):
    found = batches(mlp, 1 << 40, most=most)
    assert found.largest.size == most == max(b.size for b in found.tried)


def test_where_no_batch_fits_it_is_said():
    with pytest.raises(stowage.StowageError, match=r"no batch fits: with 1, H200: .* at "):
        batches(mlp, 1000)
    for wrong in ({"most": 0}, {"least": 0}, {"most": 6.0}, {"least": 8, "most": 7}):
        with pytest.raises(ValueError, match=r"(most|least): is "):
            batches(mlp, 1000, **wrong)
    normalized = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64))
    assert batches(normalized, 1 << 20, least=2, most=4).largest.size == 4


# --- The command ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "width", "gpus", "code"),
    [
        *((4, 2048, ["T4"], 0), (8, 2048, ["T4"], 3), (8, 2048, ["T4", "L40S"], 0)),
        (7, 6144, ["T4", "L4"], 2),
    ],
)
def test_the_exit_code_is_the_best_verdict(layers, width, gpus, code, tmp_path, capsys):
    path = tmp_path / "config.json"
    config = {"architectures": ["GPT2LMHeadModel"], "n_layer": layers, "n_embd": width,
              "n_head": 16, "vocab_size": 1000, "n_positions": 1024}  # fmt: skip
    path.write_text(json.dumps(config))
    named = [argument for gpu in gpus for argument in ("--gpu", gpu)]
    arguments = ["--config", str(path), "--batch", "8", "--length", "1024", *named]
    assert main([*arguments, "--autocast", "float16"]) == code
    printed = capsys.readouterr().out.splitlines()[-len(gpus) :]
    assert [line.split(":")[0] for line in printed] == gpus


def test_the_largest_batch_is_printed(tmp_path, capsys):
    path = tmp_path / "config.json"
    config = {"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 2048, "n_head": 16,
              "vocab_size": 50000, "n_positions": 1024}  # fmt: skip
    path.write_text(json.dumps(config))
    arguments = ["--config", str(path), "--batch", "largest", "--length", "1024"]
    assert main([*arguments, "--gpu", "T4", "--autocast", "float16"]) in (0, 3)
    printed = capsys.readouterr().out
    assert "samples/s  on T4" in printed
    assert math.isfinite(float(printed.splitlines()[1].split()[3]))
    path.write_text(json.dumps({**config, "n_layer": 7, "n_embd": 6144}))
    assert main([*arguments, "--gpu", "T4"]) == 2
    assert "no batch fits: with 1, T4: 13.55 GiB" in capsys.readouterr().err
    assert main([*arguments, "--gpu", "T4", "--gpu", "L4"]) == 1
    assert "'largest' is for one GPU" in capsys.readouterr().err


def test_the_job_is_for_the_gate(tmp_path):
    """`stowage admit` judges it as the estimate judges the step."""
    example = make("gpt2")
    plain = estimate(example.model, example.sample)
    fixed = fixed_of(plain)
    sizes = [fixed + int(share * (plain.peak_bytes - fixed)) for share in (1.3, 0.6, 0.01)]
    found = estimate(example.model, example.sample, *sizes, job=True, offload=False)
    assert [verdict.outcome for verdict in found.verdicts] == [FITS, WITH_A_PLAN, DOES_NOT]
    job = tmp_path / "job.json"
    job.write_text(found.job.to_json())
    command = [PROGRAMS / "stowage", "admit", "--local", "--format", "json", "--job", job]
    for size, code in zip(sizes, (0, 3, 2), strict=True):
        run = subprocess.run(
            [*command, "--memory", str(size)], capture_output=True, text=True, check=False
        )
        assert run.returncode == code, run.stdout + run.stderr
    least = int(json.loads(run.stdout)["verdicts"][0]["minimum_memory_bytes"])
    assert least == pytest.approx(found.verdicts[2].least_bytes, rel=0.05)
    # To the byte, as the estimate.
    for size, code in ((found.peak_bytes, 0), (found.peak_bytes - 1, 3)):
        run = subprocess.run([*command, "--memory", str(size)], capture_output=True, check=False)
        assert run.returncode == code, run.stdout


def test_what_is_around_the_layers_is_in_the_job(tmp_path):
    """Memory of what the model does before its layers, which no plan makes less."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU())
                                          for _ in range(6)))  # fmt: skip

        def forward(self, value):
            return self.layers(value.repeat(1, 64).view(-1, 64, 64).mean(1))

    sample = torch.randn(512, 64)
    found = estimate(Wide(), sample, 1 << 40, job=True)
    fitted = stowage.fit(Wide(), sample, activations="0%", optimizer_copies=0, verbose=False)
    model = Wide()
    stowage.fit(model, sample, activations="0%", optimizer_copies=0, verbose=False)
    for job in (found.job, stowage.report(model).job):
        path = tmp_path / "job.json"
        path.write_text(job.to_json())
        command = [PROGRAMS / "stowage", "admit", "--local", "--format", "json", "--job", path]
        run = subprocess.run([*command, "--memory", "1KiB"], capture_output=True, check=False)
        least = int(json.loads(run.stdout)["verdicts"][0]["minimum_memory_bytes"])
        assert least == pytest.approx(fitted.memory, rel=0.05)


def test_a_job_needs_a_gpu_whose_times_it_has():
    example = make("gpt2")
    with pytest.raises(ValueError, match="job: its times are those of a GPU"):
        stowage.estimate(example.model, example.sample, job=True)

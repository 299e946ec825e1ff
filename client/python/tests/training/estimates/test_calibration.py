"""The intervals of estimates, and the file of ratios that they are of."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from device import DEVICE
from test_estimates import OPTIMIZERS, measured, size_of
from torch import nn
from zoo import make

import stowage
from stowage.estimates import Calibration, CalibrationError, Component, Estimate, StepPeak, gpus
from stowage.estimates.__main__ import main
from stowage.estimates.calibration import cpu_name, ends, interval_of, ratio_of

SAMPLE = torch.empty(64, 256)


def model() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(4)))


def estimated(**more: object) -> Estimate:
    return stowage.estimate(model, SAMPLE, **{"device": "cpu", **more})


def file_of(path, entries: list[tuple[str, str, float]]) -> str:
    names = ("device", "kind", "ratio")
    ratios = [dict(zip(names, entry, strict=True)) for entry in entries]
    path.write_text(json.dumps({"version": 1, "ratios": ratios}))
    return str(path)


# --- The rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [19, 25, 60, 200])
def test_nine_of_ten_ratios_lie_inside(count):
    chance = random.Random(count)
    trials, inside = 4000, 0
    for _ in range(trials):
        *seen, new = (chance.lognormvariate(0, 0.3) for _ in range(count + 1))
        low, high, covers = ends(seen)
        assert covers
        inside += low <= new <= high
    # The standard deviation of the share is below 0.005.
    assert 0.885 <= inside / trials <= 0.97


def test_more_ratios_leave_more_extremes_out():
    ratios = [float(number) for number in range(1, 40)]
    assert ends(ratios[:38]) == (1, 38, True)
    assert ends(ratios) == (2, 38, True)


def test_few_ratios_are_widened():
    low, high, covers = ends([1.0, 1.1, 1.05])
    assert (low, high) == pytest.approx((0.8, 1.32))
    assert not covers


def test_a_ratio_is_of_the_part_that_makes_the_peak():
    def peak(part: str, known: int, activations: int) -> StepPeak:
        components = Component("weights", known), Component("activations", activations)
        return StepPeak(part, "", components)

    peaks = [peak("forward", 100, 50), peak("optimizer", 180, 0)]
    for measured_bytes, ratio in ((200, 2.0), (150, 1.0), (125, 0.5), (90, 0.0)):
        assert ratio_of(peaks, measured_bytes) == ratio
    spread = replace(estimated().spread, low=0.5, high=2.0)
    assert interval_of(peaks, spread) == (180, 200)
    with pytest.raises(ValueError, match="estimate: has no activations"):
        ratio_of(peaks[1:], 180)


# --- Intervals --------------------------------------------------------------------------------


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["fp32", "autocast"])
@pytest.mark.parametrize("name", ["gpt2", "vit", "resnet", "t5"])
def test_the_interval_has_the_peak_of_models_that_it_is_not_of(name, autocast):
    example = make(name)
    makes = OPTIMIZERS["AdamW"]
    found = stowage.estimate(
        example.model, example.sample, optimizer=makes, autocast=autocast, device="cpu"
    )
    low, high = found.interval
    assert low <= measured(example, makes, autocast) + size_of(found, "sample") <= high
    assert found.spread.covers


def test_own_runs_count_once_there_are_enough(tmp_path):
    path = tmp_path / "ratios.json"
    other = [("CPU of others", "fp32", 9.0), (cpu_name(), "autocast", 9.0)] * 20
    few = file_of(path, [(cpu_name(), "fp32", 1.0)] * 19 + other)
    shipped = estimated().spread
    assert estimated(calibration=few).spread.runs == 19 + shipped.runs
    enough = file_of(path, [(cpu_name(), "fp32", 1.5)] * 20 + other)
    found = estimated(calibration=Calibration(enough))
    assert (found.spread.low, found.spread.high, found.spread.runs) == (1.5, 1.5, 20)
    activations = size_of(found, "activations")
    assert found.interval == (found.peak_bytes + activations // 2,) * 2
    assert estimated(calibration=enough, autocast=torch.bfloat16).spread.high == 9
    assert "(as 9 of 10 jobs, by 20 runs)" in str(found)


def test_a_gpus_interval_says_on_how_few_runs_it_stands():
    found = estimated(device="cuda", gpu="A10")
    low, high = found.interval
    assert low < found.peak_bytes < high
    assert not found.spread.covers
    assert "(by 3 runs alone, widened by 20%)" in str(found)


def test_a_verdict_near_the_border_says_so():
    card = replace(gpus()[0], name="small")
    sample = torch.empty(1 << 20, 256)
    found = stowage.estimate(model, sample, gpu=card)
    low, high = found.interval

    def verdict(usable: int):
        memory = ((usable + (1 << 30)) * 100 + 96) // 97
        gpu = replace(card, memory_bytes=memory)
        return stowage.estimate(model, sample, gpu=gpu, offload=False).verdicts[0]

    near, sure = verdict(found.peak_bytes + (1 << 20)), verdict(high + (1 << 20))
    assert (near.outcome, near.is_sure) == ("fits", False)
    assert "fits, but the interval's upper end does not" in str(near)
    assert (sure.outcome, sure.is_sure) == ("fits", True)
    assert "interval" not in str(sure)
    below, sure = verdict(found.peak_bytes - (1 << 20)), verdict(low - (1 << 20))
    assert below.outcome != "fits"
    assert not below.is_sure
    assert "but the interval's lower end does without a plan" in str(below)
    usable = below.gpu.usable_bytes  # which a step may take to the last byte
    assert not replace(below, interval=(usable, high)).is_sure
    assert replace(below, interval=(usable + 1, high)).is_sure
    usable = near.gpu.usable_bytes
    assert replace(near, interval=(low, usable)).is_sure
    assert not replace(near, interval=(low, usable + 1)).is_sure
    both = replace(near, interval=(near.gpu.usable_bytes + 1, near.gpu.usable_bytes + 2))
    assert "fits, but each end of the interval does not" in str(both)
    assert sure.is_sure


def test_the_command_takes_a_calibration(tmp_path, capsys):
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "vocab_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = tmp_path / "ratios.json"
    job = ["--config", str(tmp_path / "config.json"), "--batch", "1", "--length", "8"]
    job += ["--device", "cpu", "--calibration", str(path)]
    file_of(path, [(cpu_name(), "fp32", 1.5)] * 20)
    assert main(job) == 0
    assert "(as 9 of 10 jobs, by 20 runs)" in capsys.readouterr().out
    path.write_text("{}")
    assert main(job) == 1
    assert f"{path} is no calibration: version: is None" in capsys.readouterr().err


# --- The file ---------------------------------------------------------------------------------


def test_a_run_is_added(tmp_path):
    calibration = Calibration(tmp_path / "new" / "ratios.json")
    assert calibration.ratios() == []
    found = estimated()
    made = size_of(found, "activations")
    assert calibration.add(found, found.peak_bytes + made // 4) == pytest.approx(1.25)
    of_gpu = estimated(device="cuda", gpu="H200", autocast=torch.bfloat16)
    calibration.add(of_gpu, of_gpu.peak_bytes)
    assert [(each.device, each.kind, each.ratio) for each in calibration.ratios()] == [
        (cpu_name(), "fp32", 1.25),
        ("H200", "autocast", 1.0),
    ]
    with pytest.raises(ValueError, match="pass the peak of a whole step"):
        calibration.add(found, 1)
    fields = {
        name for entry in json.loads(calibration.path.read_text())["ratios"] for name in entry
    }
    assert fields == {"device", "kind", "ratio"}


@pytest.mark.skipif(DEVICE.type != "cpu", reason="of a CPU's kernels")
def test_what_fit_has_measured_is_added(tmp_path):
    example, calibration = make("gpt2"), Calibration(tmp_path / "ratios.json")
    found, plain = (
        stowage.estimate(example.model, example.sample, device="cpu", accumulation=number)
        for number in (2, 1)
    )
    stowage.fit(example.model, example.sample, activations="50%", verbose=False)
    measured_bytes = stowage.report(example.model).plain_peak_bytes
    assert calibration.add_activations(found, measured_bytes) == pytest.approx(1, abs=0.05)
    assert len(calibration.ratios()) == 1
    with pytest.raises(ValueError, match="pass accumulation=2"):
        calibration.add_activations(plain, measured_bytes)
    with pytest.raises(ValueError, match="measured_bytes: is None"):
        calibration.add_activations(found, None)


def test_processes_add_to_one_file(tmp_path):
    path = tmp_path / "ratios.json"
    code = (
        "import sys, torch, stowage\n"
        "found = stowage.estimate(torch.nn.Linear(8, 8), torch.empty(4, 8), device='cpu')\n"
        "calibration = stowage.Calibration(sys.argv[1])\n"
        "for _ in range(20): calibration.add(found, found.peak_bytes)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    writers = [subprocess.Popen(command) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0] * 3
    assert len(Calibration(path).ratios()) == 60
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["ratios.json", "ratios.json.lock"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "Expecting property name"),
        ("[]", "it must be an object"),
        ("[" * 100_000, "recursion"),
        (b"\xff", "can't decode"),
        ('{"ratios": []}', "version: is None; this release reads 1"),
        ('{"version": 2, "ratios": []}', "version: is 2; this release reads 1"),
        ('{"version": 1}', "ratios: is None; it must be a list"),
        ('{"version": 1, "ratios": [3]}', r"ratios\[0\]: is 3; it must be an object"),
        *(
            (
                json.dumps({"version": 1, "ratios": [{**good, **change}]}),
                rf"ratios\[0\]\.{next(iter(change))}: is ",
            )
            for good in [{"device": "H200", "kind": "fp32", "ratio": 1.0}]
            for change in (
                *({"device": 3}, {"device": ""}, {"kind": None}, {"ratio": "1"}),
                *({"ratio": float("nan")}, {"ratio": -1}, {"ratio": True}, {"ratio": 1e9}),
            )
        ),
    ],
)
def test_a_broken_file_is_named_and_left_alone(tmp_path, content, says):
    path = tmp_path / "ratios.json"
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(content)
    with pytest.raises(CalibrationError, match=rf"ratios\.json is no calibration: .*{says}"):
        estimated(calibration=path)
    found = estimated()
    with pytest.raises(CalibrationError, match=says):
        Calibration(path).add(found, found.peak_bytes)
    assert path.read_bytes() == content


def test_arguments_that_cannot_be_are_refused(tmp_path):
    calibration, found = Calibration(tmp_path / "ratios.json"), estimated()
    for size in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match=r"measured_peak_bytes: is .*max_memory"):
            calibration.add(found, size)
    with pytest.raises(ValueError, match="estimate: is off by a factor of"):
        calibration.add(found, 1 << 50)
    with pytest.raises(ValueError, match=r"estimate: names no GPU: .*gpu="):
        calibration.add(estimated(device="cuda"), 1 << 20)
    with pytest.raises(CalibrationError, match="cannot read"):
        Calibration(tmp_path).ratios()
    with pytest.raises(CalibrationError, match="cannot write"):
        Calibration("/dev/null/ratios.json").add(found, found.peak_bytes)
    assert list(tmp_path.iterdir()) == []

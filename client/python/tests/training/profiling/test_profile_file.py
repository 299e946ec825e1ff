"""A model's profile, saved beside its plans: the next start measures nothing."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import models
import pytest
import torch
from models import Example, differences, loss_of, train
from torch import Tensor, nn

import stowage
from stowage.torch import trial
from stowage.torch.profiling.profiler import Profiler


def _fit(example: Example, directory: pathlib.Path, **more: Any) -> stowage.torch.Fitted:
    return stowage.fit(
        example.model,
        example.sample,
        **{
            "activations": "30%",
            "loss": loss_of,
            "verbose": False,
            "plan_cache": str(directory),
            **more,
        },
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been done since: "measured", "compared"."""
    done: list[str] = []

    def noting(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **more: (done.append(what), function(*args, **more))[1]

    monkeypatch.setattr(Profiler, "run", noting("measured", Profiler.run))
    monkeypatch.setattr(trial, "compare_steps", noting("compared", trial.compare_steps))
    return done


def _file(directory: pathlib.Path) -> pathlib.Path:
    (path,) = directory.glob("*.profile.json")
    return path


@pytest.mark.parametrize("name", ["blocks", "gpt2", "llama"])
def test_the_next_start_measures_nothing(
    name: str, tmp_path: pathlib.Path, runs: list[str]
) -> None:
    first = _fit(models.make(name), tmp_path)
    assert runs == ["measured", "compared"]
    example = models.make(name)
    second = _fit(example, tmp_path)
    assert runs == ["measured", "compared", "compared"]
    assert second.profile == first.profile
    assert second.source == "plan file"
    for one, other in zip(first.coordinator.stages, second.coordinator.stages, strict=True):
        assert one.ways == other.ways
    assert second.measured_peak_bytes == pytest.approx(first.measured_peak_bytes, rel=0.01)
    assert differences(train(models.make(name)), train(example)) == []


class Counts(nn.Module):
    """A layer that says how often it runs."""

    forwards = 0

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))

    def forward(self, value: Tensor) -> Tensor:
        Counts.forwards += 1
        return value + self.inner(value)


@pytest.mark.parametrize("run", ["stowage", "torch"])
def test_fit_runs_few_steps_where_they_are_long(
    run: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwards = []
    for _ in range(2):
        monkeypatch.setattr(Counts, "forwards", 0)
        torch.manual_seed(0)
        example = Example(nn.Sequential(*(Counts() for _ in range(6))), torch.randn(32, 16))
        _fit(example, tmp_path, run=run, selective=False)
        forwards.append(Counts.forwards / 6)
    # A step under the schedule has up to two, and more where it replays several layers in a row.
    # The first start also measures each layer: three forwards for its bytes, two for its times.
    assert forwards[0] <= 11
    # The second one finds the layers, and runs a plain step and one of the schedule.
    assert forwards[1] <= 4


class Collects(nn.Module):
    """Leaves a tensor in a list, whose gradient a replay would lose."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))

    def forward(self, value: Tensor, collected: list[Tensor]) -> Tensor:
        found = self.inner(value)
        collected.append(found.square().mean())
        return value + found


class Collected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Collects() for _ in range(6))

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        collected: list[Tensor] = []
        for layer in self.layers:
            value = layer(value, collected)
        return value, torch.stack(collected).sum()


@pytest.mark.parametrize("run", ["stowage", "torch"])
def test_each_start_compares_with_plain_training(run: str, tmp_path: pathlib.Path) -> None:
    losses = [
        lambda output: output[0].square().mean(),
        lambda output: output[0].square().mean() + output[1],
    ]
    gradients = []
    for loss in losses:  # the second one is of the same name
        torch.manual_seed(0)
        example = Example(Collected(), torch.randn(32, 16))
        plain = example.fresh()
        loss(plain.forward()).backward()
        expected = [parameter.grad for parameter in plain.model.parameters()]
        try:
            _fit(example, tmp_path, loss=loss, run=run)
        except stowage.NotAChainError:
            gradients.append("refused")
            continue
        loss(example.forward()).backward()
        found = [parameter.grad for parameter in example.model.parameters()]
        same = all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))  # type: ignore[arg-type]
        gradients.append("right" if same else "wrong")
    assert "wrong" not in gradients


def _another(change: Callable[[Any], object]) -> Callable[[Example], Example]:
    def changed(example: Example) -> Example:
        change(example.model)
        return example

    return changed


OTHERS: dict[str, Callable[[Example], Example]] = {
    "batch": lambda example: Example(example.model, example.sample[:4]),
    "mode": _another(lambda model: model[3].dropout.eval()),
    "attribute": _another(lambda model: setattr(model[3].dropout, "p", 0.5)),
    "frozen": _another(lambda model: model[3].linear.requires_grad_(False)),
    "layer": _another(lambda model: setattr(model[3], "norm", nn.LayerNorm(16))),
    "type": lambda example: Example(example.model.double(), example.sample.double()),
    "function": _another(lambda model: setattr(model[3], "activation", torch.tanh)),
    "list": _another(lambda model: setattr(model[3], "names", ["one"])),
    "no ways": lambda example: example,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_work_is_measured(name: str, tmp_path: pathlib.Path, runs: list[str]) -> None:
    _fit(models.make("blocks"), tmp_path)
    example = OTHERS[name](models.make("blocks"))
    _fit(example, tmp_path, selective=name != "no ways")
    assert runs.count("measured") == 2


def test_an_attention_that_a_config_chooses_is_other_work(
    tmp_path: pathlib.Path, runs: list[str]
) -> None:
    for attention in ("sdpa", "eager"):
        example = models.make("llama")
        example.model.set_attn_implementation(attention)
        _fit(example, tmp_path)
    assert runs.count("measured") == 2


BROKEN: dict[str, Callable[[Any], Any]] = {
    "no file of ours": lambda content: [],
    "a format to come": lambda content: {**content, "format": 9},
    "no chain": lambda content: {k: v for k, v in content.items() if k != "chain"},
    "an operator that is not there": lambda content: {
        **content,
        "ways": [[{"name": "x", "operators": ["aten.none.default"], "kept": [0], "joined": []}]],
    },
    "an operator that is joined to nothing": lambda content: {
        **content,
        "ways": [
            [{**way, "joined": [[len(way["operators"]) - 1, -1]]} for way in ways]
            for ways in content["ways"]
        ],
    },
    "a type that is not there": lambda content: {**content, "input": [[[1], "torch.nothing"]]},
    "a chain that is not valid": lambda content: {
        **content,
        "chain": {
            **content["chain"],
            "stages": [{**stage, "saved_bytes": "-4"} for stage in content["chain"]["stages"]],
        },
    },
    "a size that is text": lambda content: {**content, "outside_bytes": "many"},
    "no size": lambda content: {**content, "plain_peak_bytes": None},
    "overheads of another kind": lambda content: {**content, "overheads": [{"none": 1}]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_of_no_use_is_replaced(
    name: str, tmp_path: pathlib.Path, runs: list[str]
) -> None:
    _fit(models.make("blocks"), tmp_path)
    path = _file(tmp_path)
    path.write_text(json.dumps(BROKEN[name](json.loads(path.read_text()))))
    for _ in range(2):
        _fit(models.make("blocks"), tmp_path)
    assert runs.count("measured") == 2


def test_half_a_file_is_replaced(tmp_path: pathlib.Path, runs: list[str]) -> None:
    _fit(models.make("blocks"), tmp_path)
    path = _file(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    _fit(models.make("blocks"), tmp_path)
    assert runs.count("measured") == 2


def test_a_profile_whose_steps_take_more_is_measured_anew(
    tmp_path: pathlib.Path, runs: list[str]
) -> None:
    """As where a layer's code has changed, which nothing else tells."""
    whole = {"selective": False, "solver": "rotor"}
    budget = _fit(models.make("blocks"), tmp_path, **whole).activations
    path = _file(tmp_path)
    content = json.loads(path.read_text())
    # Of which more fit into the budget than there are.
    for stage in content["chain"]["stages"]:
        stage.update({key: int(stage[key]) // 4 for key in stage if key.endswith("_bytes")})
    path.write_text(json.dumps(content))
    fitted = _fit(models.make("blocks"), tmp_path, activations=budget, **whole)
    assert runs.count("measured") == 2
    assert fitted.measured_peak_bytes is not None
    assert fitted.measured_peak_bytes <= 1.05 * budget


def test_a_profile_with_which_nothing_fits_is_measured_anew(
    tmp_path: pathlib.Path, runs: list[str]
) -> None:
    budget = _fit(models.make("blocks"), tmp_path).activations
    path = _file(tmp_path)
    content = json.loads(path.read_text())
    content["outside_bytes"] += 100 * budget
    content["plain_peak_bytes"] += 200 * budget
    path.write_text(json.dumps(content))
    assert _fit(models.make("blocks"), tmp_path, activations=budget).answer is not None
    assert runs.count("measured") == 2


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "plans"
    file.write_text("not a directory")
    assert _fit(models.make("blocks"), file).answer is not None
    assert torch.is_grad_enabled()

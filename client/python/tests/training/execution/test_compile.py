"""Layers that torch.compile wraps, and whole models, train under a plan as without one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import models
import pytest
import schedules
import torch
from functorch.compile import make_boxed_func
from models import Example, differences, loss_of, train
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

import stowage

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def _nothing_is_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _compiled(backend: str) -> Example:
    example = models.make("blocks")
    for index in range(8):
        example.model[index] = torch.compile(example.model[index], backend=backend)
    return example


def _fit(example: Example) -> None:
    stowage.fit(example.model, example.sample, activations="15%", loss=loss_of, verbose=False)
    layers = stowage.report(example.model).layers
    assert [layer.name for layer in layers] == [str(index) for index in range(9)]
    assert any(layer.recomputed for layer in layers)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_is_equal(backend: str) -> None:
    expected = train(_compiled(backend))
    assert differences(expected, train(_compiled(backend))) == []
    example = _compiled(backend)
    forwards = [layer.__dict__.get("forward") for layer in example.model]
    _fit(example)
    assert differences(expected, train(example)) == []
    stowage.unfit(example.model)
    assert [layer.__dict__.get("forward") for layer in example.model] == forwards


@pytest.mark.parametrize("backend", BACKENDS)
def test_later_steps_compile_nothing(backend: str) -> None:
    example = _compiled(backend)
    _fit(example)
    train(example, steps=1)
    # Not frames, which are also those of finalizers that run meanwhile.
    stats = torch._dynamo.utils.counters["stats"]
    before = stats["unique_graphs"]
    assert before > 0
    train(example)
    assert stats["unique_graphs"] == before


def test_copies_of_compiled_layers_are_plain() -> None:
    expected = train(_compiled("eager"))
    example = _compiled("eager")
    _fit(example)
    copied = copy.deepcopy(example.model)
    assert differences(expected, train(Example(copied, example.sample))) == []
    assert differences(expected, train(example)) == []


def _wide() -> Example:
    """Blocks whose layers gain from being kept in part."""
    torch.manual_seed(0)
    layers = [
        nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True) for _ in range(4)
    ]
    example = Example(nn.Sequential(*layers), torch.randn(4, 32, 64))
    example.model.train()
    return example


def _gradients(example: Example, backend: str) -> tuple[list[Tensor], int]:
    """Of the compiled model, and the number of its graphs."""
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(example.model, backend=backend, fullgraph=True)
    for _ in range(2):
        example.model.zero_grad()
        torch.manual_seed(2)
        loss_of(compiled(example.sample)).backward()
    gradients = [p.grad for p in example.model.parameters() if p.grad is not None]
    return gradients, torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("activations", ["5%", "40%", "100%"])
@pytest.mark.parametrize("kind", ["blocks", "wide"])
def test_a_fitted_model_is_compiled_as_one_graph(kind: str, activations: str) -> None:
    make = _wide if kind == "wide" else lambda: models.make("blocks")
    expected, graphs = _gradients(make(), "aot_eager")
    example = make()
    stowage.fit(
        example.model,
        example.sample,
        activations=activations,
        loss=loss_of,
        run="torch",
        verbose=False,
    )
    found, of_fitted = _gradients(example, "aot_eager")
    assert of_fitted == graphs == 1
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)


def _bytes_left(model: nn.Module, sample: Tensor) -> int:
    """By the forward of the compiled model, for its backward."""
    left: list[int] = []

    def forward(module: Any, inputs: Any) -> Any:
        outputs = next(node for node in module.graph.nodes if node.op == "output").args[0]
        made = [node.meta["val"] for node in outputs if node and node.op == "call_function"]
        left.append(sum(tensor.nbytes for tensor in made if isinstance(tensor, Tensor)))
        return make_boxed_func(module.forward)

    backend = aot_autograd(fw_compiler=forward, bw_compiler=lambda module, _: module.forward)
    torch.compiler.reset()
    torch.compile(model, backend=backend, fullgraph=True)(sample)
    return left[0]


def test_a_compiled_model_keeps_what_the_plan_says() -> None:
    expected, _ = _gradients(_wide(), "aot_eager")
    profiled = schedules.profiled(_wide())
    recordings = schedules.recorded(profiled.example, profiled.stages, profiled.slots)
    for stage, recording in zip(profiled.stages, recordings, strict=True):
        products = [
            i for i, made in enumerate(recording.operators) if "addmm" in str(made.operator)
        ]
        stage.ways = (recording.way("products", products),)
    model, sample = profiled.example.model, profiled.example.sample
    left = []
    for option in (None, 1, 0):
        with profiled.under(schedules.in_turn([option] * 4), alone=True):
            left.append(_bytes_left(model, sample))
    assert left[0] < left[1] < left[2]
    with profiled.under(schedules.in_turn([None, 1, 1, 0]), alone=True):
        found, graphs = _gradients(profiled.example, "aot_eager")
    assert graphs == 1
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)


class Breaks(nn.Module):
    """Breaks its graph, counts in buffers, and has arguments of checkpoint's names."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 64), nn.Linear(64, 16)
        self.norm = nn.BatchNorm1d(64)
        self.scale = 1.0

    def forward(self, value: Tensor, debug: bool = True, early_stop: bool = False) -> Tensor:
        found = self.inner(value) * self.scale
        if debug:
            torch._dynamo.graph_break()
        return value + self.outer(torch.tanh(self.norm(found)))


class AllBreak(nn.Module):
    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Breaks() for _ in range(3))
        self.breaks = breaks

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value, debug=self.breaks, early_stop=True)
        return value


@pytest.mark.parametrize("breaks", [True, False])
def test_a_graph_that_breaks_inside_of_a_layer(breaks: bool) -> None:
    torch.manual_seed(0)
    plain = Example(AllBreak(breaks), torch.randn(32, 16))
    example = plain.fresh()
    profiled = schedules.profiled(example)
    gradients = []
    with profiled.under(schedules.in_turn([None] * 3), alone=True):
        for one in (plain, example):
            for _ in range(2):
                one.model.zero_grad()
                loss = loss_of(torch.compile(one.model, backend="aot_eager")(one.sample))
                for layer in one.model.layers:
                    layer.scale = 2.0  # which a replay must not see
                loss.backward()
                for layer in one.model.layers:
                    layer.scale = 1.0
            gradients.append([parameter.grad for parameter in one.model.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(plain.model.buffers(), example.model.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_plan_of_the_executor_breaks_a_compiled_models_graph_at_each_layer() -> None:
    expected, _ = _gradients(models.make("blocks"), "aot_eager")
    example = models.make("blocks")
    stowage.fit(
        example.model,
        example.sample,
        activations="5%",
        loss=loss_of,
        run="stowage",
        verbose=False,
    )
    compiled = torch.compile(example.model, backend="aot_eager")
    torch.manual_seed(2)
    loss_of(compiled(example.sample)).backward()
    for one, parameter in zip(expected, example.model.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(one, parameter.grad)


def _compile_module(model: nn.Module) -> nn.Module:
    model.compile(backend="aot_eager", fullgraph=True)
    return model


def _compile_function(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("runs_before", [False, True])
@pytest.mark.parametrize("compiles", [_compile_function, _compile_module])
def test_a_compiled_model_is_fitted(compiles: Any, runs_before: bool) -> None:
    expected, _ = _gradients(_wide(), "aot_eager")
    example = _wide()
    compiled = compiles(example.model)
    if runs_before:
        loss_of(compiled(example.sample)).backward()
    stats = torch._dynamo.utils.counters["stats"]
    stats.clear()
    stowage.fit(compiled, example.sample, activations="20%", loss=loss_of, verbose=False)
    assert stats["unique_graphs"] == 0
    report = stowage.report(compiled)
    assert report.run == "torch"
    assert any(layer.kept != "all" for layer in report.layers)
    assert "what is measured is without torch.compile of the model" in report.notes
    for _ in range(2):
        example.model.zero_grad()
        torch.manual_seed(2)
        loss_of(compiled(example.sample)).backward()
    assert stats["unique_graphs"] == 1
    for one, other in zip(expected, example.model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad)
    stowage.unfit(compiled)
    assert "forward" not in vars(example.model[0])
    loss_of(compiled(example.sample)).backward()

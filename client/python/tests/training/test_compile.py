"""Layers that torch.compile wraps train under a schedule as they do without one."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import models
import pytest
import torch
from models import Example, differences, loss_of, train

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

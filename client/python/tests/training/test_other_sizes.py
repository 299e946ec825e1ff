"""Inputs of other sizes than the sample get schedules of their own, and are safe until then."""

from __future__ import annotations

from typing import Any

import models
import pytest
import torch
from models import Example, differences, loss_of, train

import stowage
from stowage.torch.coordinator import Coordinator
from stowage.torch.other_sizes import OtherSizes
from stowage.torch.workload import Workload, measure_step, unchanged

CPU = torch.device("cpu")


def _fitted(example: Example, **more: Any) -> stowage.torch.Fitted:
    return stowage.fit(
        example.model, example.sample, activations="30%", loss=loss_of, verbose=False, **more
    )


def _sizes(coordinator: Coordinator) -> OtherSizes:
    assert coordinator._other_sizes is not None
    return coordinator._other_sizes


@pytest.mark.parametrize("batch", [2, 24])
def test_training_is_equal_at_once_and_later(batch: int) -> None:
    generator = torch.Generator().manual_seed(6)
    other = torch.randn(batch, 16, generator=generator)
    plain = models.make("blocks")
    expected = train(Example(plain.model, other))
    example = models.make("blocks")
    fitted = _fitted(example)
    assert differences(expected, train(Example(example.model, other))) == []
    _sizes(fitted.coordinator).wait()
    example.model.load_state_dict(models.make("blocks").model.state_dict())
    example.model.zero_grad()
    assert differences(expected, train(Example(example.model, other))) == []


def test_a_smaller_batch_is_soon_trained_plainly() -> None:
    example = models.make("bert")
    fitted = _fitted(example)
    assert fitted.answer is not None
    small = {name: tensor[:1, :8] for name, tensor in example.sample.items()}
    loss_of(Example(example.model, small).forward()).backward()
    sizes = _sizes(fitted.coordinator)
    sizes.wait()
    assert [program.is_plain for program in sizes._found.values()] == [True]


def test_a_longer_sequence_stays_within_the_budget() -> None:
    example = models.make("llama")
    fitted = _fitted(example)
    longer = {
        name: torch.cat([tensor, tensor[:, :16]], 1) for name, tensor in example.sample.items()
    }
    other = Example(example.model, longer)
    work = Workload(other.forward, loss_of, CPU)
    with unchanged(example.model, CPU):
        _, first = measure_step(work)
        _sizes(fitted.coordinator).wait()
        _, later = measure_step(work)
    for peak in (first, later):
        assert peak < fitted.activations * 1.06


def test_where_nothing_fits_the_least_is_run() -> None:
    example = models.make("llama")
    fitted = stowage.fit(
        example.model, example.sample, activations="8%", loss=loss_of, verbose=False
    )
    longer = {name: tensor.repeat(4, 1) for name, tensor in example.sample.items()}
    other = Example(example.model, longer)
    loss_of(other.forward()).backward()
    sizes = _sizes(fitted.coordinator)
    sizes.wait()
    assert list(sizes._found.values()) == [sizes._safest()]
    loss_of(other.forward()).backward()

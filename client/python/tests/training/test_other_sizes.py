"""Inputs of other sizes than the sample get schedules of their own, and are safe until then."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import models
import pytest
import torch
from device import DEVICE, generator
from models import Example, differences, loss_of, train

import stowage
from stowage.torch.coordinator import Coordinator
from stowage.torch.model_state import unchanged
from stowage.torch.other_sizes import OtherSizes
from stowage.torch.workload import Workload, metered_step


def _fitted(example: Example, **more: Any) -> stowage.torch.Fitted:
    return stowage.fit(
        example.model, example.sample, activations="30%", loss=loss_of, verbose=False, **more
    )


def _sizes(coordinator: Coordinator) -> OtherSizes:
    assert coordinator._other_sizes is not None
    return coordinator._other_sizes


@pytest.mark.parametrize("batch", [2, 24])
def test_training_is_equal_at_once_and_later(batch: int) -> None:
    other = torch.randn(batch, 16, generator=generator(6))
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
    work = Workload(other.forward, loss_of, DEVICE)
    with unchanged(example.model):
        _, first = metered_step(work)
        _sizes(fitted.coordinator).wait()
        _, later = metered_step(work)
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


# The last batch of an epoch is smaller, and the schedule for it is still looked for at the end.
LAST_BATCH = """
import torch, stowage
from torch import nn
torch.set_num_threads(1)
layers = [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(48)]
model = nn.Sequential(*layers)
fitted = stowage.fit(model, torch.randn(64, 16), activations="20%", verbose=False, measure=False)
sizes = fitted.coordinator._other_sizes
find = sizes._find
def find_for_ever(chain, outside):
    while True:
        find(chain, outside)
sizes._find = find_for_ever
model(torch.randn(58, 16)).sum().backward()
print("trained")
"""


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("raise KeyboardInterrupt", -2)], ids=["end", "interrupt"]
)
def test_a_script_ends_while_a_schedule_is_looked_for(end: str, code: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LAST_BATCH + end],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (run.returncode, run.stdout) == (code, "trained\n"), run.stderr
    assert run.stderr.strip().rpartition("\n")[2] == ("KeyboardInterrupt" if end else "")

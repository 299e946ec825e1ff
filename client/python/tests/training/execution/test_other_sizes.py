"""Inputs of other sizes than the sample get schedules of their own, and are safe until then."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import models
import pytest
import torch
import transformers
from device import DEVICE, generator
from models import Example, differences, loss_of, train
from torch import Tensor, nn

import stowage
from stowage.model import Chain, SaveOption, Stage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.other_sizes import OtherSizes
from stowage.torch.execution.scaled_chain import between
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Workload, metered_step


def _fitted(example: Example, **more: Any) -> stowage.torch.Fitted:
    return stowage.fit(
        example.model, example.sample, activations="30%", loss=loss_of, verbose=False, **more
    )


def _sizes(coordinator: Coordinator) -> OtherSizes:
    assert coordinator.other_sizes is not None
    return coordinator.other_sizes


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
    assert [plan.program.is_plain for _, plan in sizes.plans()] == [True]


def test_a_longer_sequence_stays_within_the_budget() -> None:
    example = models.make("llama")
    fitted = _fitted(example)
    longer = {
        name: torch.cat([tensor, tensor[:, :16]], 1) for name, tensor in example.sample.items()
    }
    other = Example(example.model, longer)
    work = Workload(other.forward, loss_of, DEVICE)
    with unchanged(example.model):
        first = metered_step(work).peak
        _sizes(fitted.coordinator).wait()
        later = metered_step(work).peak
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
    assert [plan.program for _, plan in sizes.plans()] == [sizes._safest()]
    loss_of(other.forward()).backward()


# The last batch of an epoch is smaller, and the schedule for it is still looked for at the end.
LAST_BATCH = """
import torch, stowage
from torch import nn
torch.set_num_threads(1)
layers = [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(48)]
model = nn.Sequential(*layers)
fitted = stowage.fit(model, torch.randn(64, 16), activations="20%", verbose=False, measure=False)
sizes = fitted.coordinator.other_sizes
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


def _gpt2() -> nn.Module:
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=6, n_embd=48, n_head=4, vocab_size=200, n_positions=160, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).to(DEVICE)


def _tokens(length: int, batch: int = 2) -> dict[str, Tensor]:
    ids = torch.randint(0, 200, (batch, length), generator=generator(length), device=DEVICE)
    return {"input_ids": ids, "labels": ids}


def _step(model: nn.Module, sample: dict[str, Tensor]) -> list[Tensor]:
    torch.manual_seed(2)
    model.zero_grad()
    loss = model(**sample).loss
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


def test_eighty_lengths_between_two_samples() -> None:
    plain, model = _gpt2(), _gpt2()
    samples = [_tokens(72), _tokens(156)]
    fitted = stowage.fit(model, samples, activations="30%", verbose=False)
    sizes = _sizes(fitted.coordinator)
    lengths = list(range(74, 154))
    random.Random(3).shuffle(lengths)
    for number, length in enumerate(lengths):
        expected, found = _step(plain, _tokens(length)), _step(model, _tokens(length))
        assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
        if number % 8 == 0:
            sizes.wait()
            work = Workload(lambda n=length: model(**_tokens(n)), lambda out: out.loss, DEVICE)
            with unchanged(model):
                assert metered_step(work)[1] < 1.05 * fitted.activations
    report = stowage.report(model)
    assert 8 < len(report.sizes) <= 16
    # No step was measured but that of the shorter sample.
    assert sum(each.is_measured for each in report.sizes) <= 1
    for each in report.sizes:
        assert each.predicted_peak_bytes is not None
        assert each.predicted_peak_bytes <= fitted.activations
    assert "between two that were measured" in str(report)


def test_a_size_just_below_a_known_one_is_run_as_that() -> None:
    model = _gpt2()
    fitted = stowage.fit(model, _tokens(100), activations="30%", verbose=False)
    for length in (96, 97, 99):
        _step(model, _tokens(length))
    sizes = _sizes(fitted.coordinator)
    sizes.wait()
    assert sizes.plans() == []


def test_what_does_not_lie_between_two_is_measured() -> None:
    model = _gpt2()
    samples = [_tokens(72), _tokens(144, batch=4)]
    fitted = stowage.fit(model, samples, activations="30%", verbose=False)
    sizes = _sizes(fitted.coordinator)
    for sample in (_tokens(108, batch=3), _tokens(144, batch=2)):  # the first one does
        _step(model, sample)
        sizes.wait()
    assert [plan.is_measured for _, plan in sizes.plans()] == [True, False, True]


def test_a_size_is_measured_again_once_it_was_forgotten() -> None:
    model = _gpt2()
    fitted = stowage.fit(model, _tokens(16), activations="30%", verbose=False)
    sizes = _sizes(fitted.coordinator)
    lengths = [round(18 * 1.12**power) for power in range(19)]
    for length in reversed(lengths):  # the largest first: each has one above, and none below
        _step(model, _tokens(length))
        sizes.wait()
    first = f"2x{lengths[-1]}x48"
    assert len(sizes.plans()) == 16
    assert first not in dict(sizes.plans())
    _step(model, _tokens(lengths[-1]))
    sizes.wait()
    assert len(sizes.plans()) == 16
    assert first in dict(sizes.plans())


def test_a_size_whose_step_fails_leaves_the_model_plain() -> None:
    model = _gpt2()
    samples = [_tokens(100), {**_tokens(40), "labels": torch.full((2, 40), 300, device=DEVICE)}]
    with pytest.raises((IndexError, RuntimeError)):
        stowage.fit(model, samples, activations="30%", verbose=False)
    assert "forward" not in vars(model.transformer.h[0])
    with pytest.raises(stowage.StowageError, match="was not fitted"):
        stowage.report(model)


def test_between_two_chains_bytes_are_rounded_up_and_times_lie_between() -> None:
    low, high = (
        Chain(
            name="c",
            input_bytes=size,
            stages=(
                Stage(
                    name="a",
                    forward_seconds=size,
                    backward_seconds=2.0 * size,
                    output_bytes=size,
                    saved_bytes=3 * size,
                    replay_seconds=None if size == 10 else 1.0,
                    save_options=(
                        SaveOption(name="w", saved_bytes=2 * size, backward_seconds=2.5 * size),
                    ),
                ),
            ),
        )
        for size in (10, 21)
    )
    found = between(low, high, 0.5)
    stage = found.stages[0]
    assert (found.input_bytes, stage.output_bytes, stage.saved_bytes) == (16, 16, 47)
    assert (stage.forward_seconds, stage.backward_seconds) == (15.5, 31.0)
    assert stage.replay_seconds is None
    assert stage.save_options[0].saved_bytes == 31
    assert between(low, high, 1.0).stages[0].saved_bytes == high.stages[0].saved_bytes

"""Where the schedule's gradients are not compared with plain training's, `fit` says so, and why."""

from __future__ import annotations

import itertools
from typing import Any

import models
import pytest
import torch
from models import differences, loss_of, train
from torch import Tensor

import stowage
from stowage.torch.measuring import comparison

_NOT_COMPARED = "loss and gradients were not compared with plain training's"


def _fit(example: models.Example, **more: Any) -> stowage.torch.Fitted:
    arguments = {"activations": "20%", "loss": loss_of, "verbose": False, **more}
    return stowage.fit(example.model, example.sample, **arguments)


def _notes(example: models.Example, fitted: stowage.torch.Fitted) -> list[str]:
    """Those of the comparison, which the paragraph and the report have, too."""
    found = [note for note in fitted.notes if note.startswith(_NOT_COMPARED)]
    for text in (str(fitted), str(stowage.report(example.model))):
        assert text.count(_NOT_COMPARED) == len(found)
        assert all(note in text for note in found)
    return found


def test_nothing_is_said_where_they_were_compared() -> None:
    example = models.make("blocks")
    fitted = _fit(example)
    assert fitted.answer is not None
    assert _notes(example, fitted) == []


def _out_of_memory(*_: Any) -> Any:
    raise torch.OutOfMemoryError("on purpose")


@pytest.mark.parametrize(
    "step",
    [
        "stowage.torch.profiling.profiler.plain_steps",
        "stowage.torch.measuring.comparison.metered_step",
    ],
)
def test_plain_training_that_runs_out_of_memory_is_said(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(models.make("blocks"))
    example = models.make("blocks")
    monkeypatch.setattr(step, _out_of_memory)
    fitted = _fit(example)
    assert _notes(example, fitted) == [f"{_NOT_COMPARED}: plain training runs out of memory"]
    assert differences(expected, train(example)) == []


def test_plain_training_that_gives_another_loss_each_time_is_said() -> None:
    def loss(output: Tensor) -> Tensor:
        return loss_of(output) * next(factors)

    factors = itertools.cycle([1.0, 2.0])
    example = models.make("blocks")
    (note,) = _notes(example, _fit(example, loss=loss))
    assert note.startswith(f"{_NOT_COMPARED}: the losses of two steps on the sample are ")


def test_what_is_said_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    real = comparison.compare_steps
    monkeypatch.setattr(
        "stowage.torch.trial.compare_steps",
        lambda *sums: (compared.append("once"), real(*sums))[1],
    )
    example = models.make("blocks")
    _fit(example)
    assert compared == ["once"]
    monkeypatch.setattr("stowage.torch.measuring.comparison.metered_step", _out_of_memory)
    assert len(_notes(example, _fit(example))) == 1
    assert compared == ["once"]

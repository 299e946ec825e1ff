"""What a job holds beside activations, before anything of it exists."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stowage.torch.choosing.budget import memory_use


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adagrad, {}),
        (torch.optim.RMSprop, {}),
        (torch.optim.RMSprop, {"momentum": 0.9}),
        (torch.optim.RMSprop, {"centered": True}),
        (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"amsgrad": True}),
    ],
)
def test_an_optimizer_takes_what_its_first_step_makes(kind: Any, options: Any) -> None:
    model = nn.Linear(64, 64)
    optimizer = kind(model.parameters(), lr=0.1, **options)
    before = memory_use(model, optimizer, 7)  # copies, which are of a job without an optimizer
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    assert memory_use(model, optimizer, 7) == before


def test_what_is_frozen_has_neither_gradients_nor_a_state() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    model[0].requires_grad_(False)
    use = memory_use(model, None, 1.5, gradient_copies=2)
    assert use.gradients == use.weights
    assert use.optimizer == 1.5 * use.weights / 2

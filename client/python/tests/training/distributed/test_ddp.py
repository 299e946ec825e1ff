"""DDP over a fitted model leaves in each process what DDP over the plain model leaves."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import traceback
from dataclasses import dataclass, field
from typing import Any

import models
import processes
import pytest
import torch
import torch.distributed
from models import Trained, differences, loss_of
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import stowage

_PROCESSES = 2


class PartlyUnused(nn.Module):
    """A layer with parameters that get no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(16, 16)
        self.unused = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        return torch.tanh(self.used(value))


class NoChain(nn.Module):
    """Changes the value between its layers, and calls one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(6))

    def forward(self, value: Tensor) -> Tensor:
        for layer in (*self.layers, self.layers[1]):
            value = layer(value).tanh()
        return value


@dataclass(frozen=True)
class Case:
    no_sync: bool = False  # for the first of a step's two micro-batches
    is_chain: bool = True
    partly_unused: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of DistributedDataParallel


CASES = {
    "all micro-batches synchronized": Case(),
    "no_sync": Case(no_sync=True),
    "unused parameters": Case(
        no_sync=True, partly_unused=True, options={"find_unused_parameters": True}
    ),
    "layers that are no chain": Case(is_chain=False),
    "static graph": Case(options={"static_graph": True, "gradient_as_bucket_view": True}),
}


def _model(case: Case) -> nn.Module:
    """Dropout and BatchNorm in eight layers; the same in each process."""
    torch.manual_seed(0)
    model = models.make("blocks").model if case.is_chain else NoChain()
    if case.partly_unused:
        model.insert(3, PartlyUnused())
    return model


def _micro_batches(rank: int) -> Tensor:
    return torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(100 + rank))


def _train(model: nn.Module, rank: int, case: Case) -> Trained:
    """Three steps of two micro-batches."""
    torch.manual_seed(7 + rank)  # each process drops other values
    parallel = DistributedDataParallel(model, **case.options)
    optimizer = torch.optim.SGD(parallel.parameters(), 0.01, momentum=0.9)
    losses = []
    tensors: dict[str, Tensor] = {}
    for step in range(3):
        for index, micro_batch in enumerate(_micro_batches(rank)):
            first = case.no_sync and index == 0
            with parallel.no_sync() if first else contextlib.nullcontext():
                loss = loss_of(parallel(micro_batch))
                loss.backward()
            losses.append(loss.item())
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[f"gradient {step} {name}"] = parameter.grad.clone()
        optimizer.step()
        optimizer.zero_grad()
    tensors.update((name, tensor.clone()) for name, tensor in model.state_dict().items())
    tensors["random state"] = torch.get_rng_state()
    return Trained(losses, tensors)


def _failures(rank: int, case: Case) -> list[str]:
    expected = _train(_model(case), rank, case)
    # Where two plain runs differ, there is nothing to compare with.
    assert differences(expected, _train(_model(case), rank, case)) == []
    model = _model(case)
    stowage.fit(model, _micro_batches(rank)[0], activations="15%", loss=loss_of, verbose=False)
    assert any(layer.recomputed for layer in stowage.report(model).layers)
    return differences(expected, _train(model, rank, case))


def _run_all(rank: int, folder: str) -> None:
    """Runs in each process. Writes what fails in each case."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=_PROCESSES,
        timeout=datetime.timedelta(seconds=60),
    )
    found: dict[str, list[str]] = {}
    for name, case in CASES.items():
        try:
            found[name] = _failures(rank, case)
        except Exception:
            found[name] = [traceback.format_exc()]
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # gloo's threads may still end work, and would die where Python has ended


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """By process and case. The processes, whose start takes the most time, start once."""
    folder = tmp_path_factory.mktemp("ddp")
    processes.run_all(_PROCESSES, _run_all, str(folder))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(_PROCESSES)]


@pytest.mark.parametrize("case", CASES)
def test_training_is_equal(case: str, failures: list[dict[str, list[str]]]) -> None:
    assert [of_process[case] for of_process in failures] == [[], []]

"""Processes that train together, forked from one that has imported what takes seconds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import torch.multiprocessing

from stowage.torch.measuring import workload

# What tests import, by its installed name: the process that forks has no other path.
_IMPORTED = (
    *("torch", "torchvision", "timm", "transformers"),
    *("transformers.models.gpt2.modeling_gpt2", "transformers.models.llama.modeling_llama"),
)


def _run(rank: int, run: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    workload._ENOUGH_SECONDS = 0.0  # as in the process that starts it: conftest.py
    run(rank, *arguments)


def start(count: int, run: Callable[..., None], *arguments: Any) -> Any:
    """Calls `run(rank, *arguments)` in each; their environment is that of the first call."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_IMPORTED))
    return torch.multiprocessing.start_processes(
        _run, (run, arguments), nprocs=count, join=False, start_method="forkserver"
    )


def run_all(count: int, run: Callable[..., None], *arguments: Any) -> None:
    """As `start`, until all have ended; raises what one of them raises."""
    context = start(count, run, *arguments)
    while not context.join():
        pass

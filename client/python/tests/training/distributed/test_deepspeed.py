"""DeepSpeed's ZeRO 1 and 2 around a fitted model train as around the plain one."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import traceback
from typing import Any

import models
import processes
import pytest
import torch
import torch.distributed

import stowage

_PROCESSES = 2
_STEPS = 10
_BUDGETS: dict[str, dict[str, Any]] = {
    "by checkpoint": {"activations": "40%", "run": "torch"},
    "by the executor": {"activations": "0%", "run": "stowage"},
}


def _trained(rank: int, stage: int, budget: dict[str, Any] | None) -> list[float]:
    """Losses of micro-batches, two of which are a step, and sums of the parameters."""
    import deepspeed

    example = models.make("llama")
    ids = torch.randint(0, 200, (2, 48), generator=torch.Generator().manual_seed(rank))
    sample = {"input_ids": ids, "labels": ids}
    if budget is not None:
        stowage.fit(example.model, sample, verbose=False, **budget)
        assert any(layer.recomputed for layer in stowage.report(example.model).layers)
    engine, *_ = deepspeed.initialize(
        model=example.model,
        model_parameters=example.model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 2,
            "gradient_clipping": 0.5,
            "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        },
    )
    torch.manual_seed(rank)
    seen = []
    for _ in range(_STEPS):
        loss = engine(**sample).loss
        engine.backward(loss)
        engine.step()
        seen.append(loss.item())
    return [*seen, *(p.detach().double().sum().item() for p in example.model.parameters())]


def _run_all(rank: int, folder: str) -> None:
    """Runs in each process. Writes what differs from plain training."""
    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=str(_PROCESSES), LOCAL_RANK=str(rank))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(_PROCESSES))
    torch.set_num_threads(1)
    found: dict[str, list[str]] = {}
    try:
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=_PROCESSES,
            timeout=datetime.timedelta(seconds=60),
        )
        import deepspeed

        # Else it compiles what only inference shares memory with, which takes half a minute.
        deepspeed.ops.__compatible_ops__ = {}
        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
        for stage in (1, 2):
            plain = _trained(rank, stage, None)
            for name, budget in _BUDGETS.items():
                same = _trained(rank, stage, budget) == plain
                found[f"{stage} {name}"] = [] if same else ["other losses or parameters"]
    except Exception:
        found["error"] = [traceback.format_exc()]
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # gloo's threads may still end work, and would die where Python has ended


@pytest.mark.skipif(torch.cuda.is_available(), reason="it is for processes on a CPU")
def test_zero_1_and_2(tmp_path: pathlib.Path) -> None:
    processes.run_all(_PROCESSES, _run_all, str(tmp_path))
    for rank in range(_PROCESSES):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert "error" not in found, found["error"][0]
        assert found == {f"{stage} {name}": [] for stage in (1, 2) for name in _BUDGETS}

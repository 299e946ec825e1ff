"""torchtitan's Llama, parallelized by torchtitan, trains under `StowageAC` as without it.

Its Trainer needs a GPU: what that does around its model, with gloo and without, is done here.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import traceback
from typing import Any

import processes
import pytest
import torch
import torch.distributed
from torch import nn
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims, parallel_dims
from torchtitan.distributed.utils import get_spmd_context, set_spmd_backend
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.sharding import set_llama3_sharding_config

import stowage
from stowage.integrations.torchtitan import StowageAC

_TOKENS = 64
_IDS = 2048
# By kind: degrees of data and tensor parallelism, torchtitan's backend, and steps.
CASES = {
    "sharded": (2, 1, "spmd_types", 10),
    "tensor parallel": (1, 2, "partial_dtensor", 10),
    "both": (2, 2, "spmd_types", 5),
}


class _Job:
    """What the Trainer makes of a config. The processes have one backend each."""

    def __init__(self, case: str) -> None:
        shards, parts, backend, self.steps = CASES[case]
        self._parallelism = ParallelismConfig(
            data_parallel_shard_degree=shards, tensor_parallel_degree=parts, spmd_backend=backend
        )
        set_spmd_backend(backend)
        self._dims = ParallelDims.from_config(self._parallelism, torch.distributed.get_world_size())
        self._dims.build_mesh()
        self.context = get_spmd_context(parallel_dims=self._dims)

    def model(self, policy: StowageAC.Config | None) -> nn.Module:
        spec = model_registry("debugmodel")
        spec.model.layers = spec.model.layers[:4]
        for layer in spec.model.layers:  # the others need a GPU
            layer.attention.inner_attention = ScaledDotProductAttention.Config()
        set_llama3_sharding_config(spec.model, enable_sp=True)
        with torch.device("meta"):
            model = spec.model.build()
        model = spec.parallelize_fn(
            model,
            parallel_dims=self._dims,
            training=TrainingConfig(seq_len=_TOKENS, mixed_precision_param="float32"),
            parallelism=self._parallelism,
            compile_config=CompileConfig(enable=False),
            ac_config=policy,
            dump_folder="",
        )
        for module in model.modules():
            if hasattr(module, "set_force_sum_reduction_for_comms"):
                module.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sums
        model.to_empty(device="cpu")
        torch.manual_seed(0)
        with torch.no_grad():
            model.init_weights(buffer_device=None)
        return model.train()


def _losses(job: _Job, model: nn.Module) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = CrossEntropyLoss.Config(global_vocab_size=_IDS).build()
    positions = torch.arange(_TOKENS).expand(2, -1)
    seen = []
    for step in range(job.steps):
        ids = torch.randint(_IDS, (2, _TOKENS), generator=torch.Generator().manual_seed(step))
        with job.context():
            loss, _ = loss_fn(model(ids, positions=positions), ids, torch.tensor(2.0 * _TOKENS))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def _result(case: str) -> Any:
    """Losses without a policy and with it, and how many layers are not kept."""
    job = _Job(case)
    plain = _losses(job, job.model(None))
    model = job.model(StowageAC.Config(activations="10%", arguments={"verbose": False}))
    losses = _losses(job, model)
    return [plain, losses, sum(layer.kept != "all" for layer in stowage.report(model).layers)]


def _run(rank: int, size: int, folder: str, case: str) -> None:
    torch.set_num_threads(1)
    parallel_dims.device_type = "cpu"
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )
    try:
        result = _result(case)
    except Exception:
        result = traceback.format_exc()
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(result))
    os._exit(0)  # the others may wait


@pytest.mark.parametrize("case", CASES)
def test_trains_as_without(case: str, tmp_path: pathlib.Path) -> None:
    shards, parts, *_ = CASES[case]
    size = shards * parts
    processes.run_all(size, _run, size, str(tmp_path), case)
    for rank in range(size):
        result = json.loads((tmp_path / f"{rank}.json").read_text())
        assert isinstance(result, list), result
        plain, losses, replayed = result
        assert losses == plain
        assert plain[-1] < plain[0]
        assert replayed > 0

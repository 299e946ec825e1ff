"""Layers that fully_shard shards are refused by name."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import models
import pytest
import torch
import torch.distributed
from models import loss_of
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import stowage
from stowage.torch import NotAChainError


@pytest.fixture
def mesh(tmp_path: pathlib.Path) -> Iterator[DeviceMesh]:
    """This process alone."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        torch.distributed.destroy_process_group()


def test_a_sharded_layer_is_refused_by_name(mesh: DeviceMesh) -> None:
    example = models.make("blocks")
    fully_shard(example.model[3], mesh=mesh)
    with pytest.raises(NotAChainError, match=r"^3 is sharded by fully_shard.*checkpoint"):
        stowage.fit(example.model, example.sample, activations="20%", loss=loss_of, verbose=False)
    loss_of(example.forward()).backward()  # the model is as it was


def test_a_sharded_part_of_a_layer_is_refused_by_the_layers_name(mesh: DeviceMesh) -> None:
    example = models.make("blocks")
    fully_shard(example.model[2].linear, mesh=mesh)
    with pytest.raises(NotAChainError, match=r"^2 is sharded by fully_shard"):
        stowage.fit(example.model, example.sample, activations="20%", loss=loss_of, verbose=False)

"""What is sharded, or wrapped for several processes, is refused by name before anything runs."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import models
import processes
import pytest
import torch
import torch.distributed
from models import loss_of
from torch import Tensor, nn
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DataParallel, DistributedDataParallel

import stowage
from stowage.torch import NotAChainError
from stowage.torch.distributed.sharding import casts_output, part_of

_PROCESSES = 2


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


def _fit(model: nn.Module, **more: Any) -> stowage.torch.Fitted:
    sample = models.make("blocks").sample
    arguments = {"activations": "20%", "loss": loss_of, "verbose": False, **more}
    return stowage.fit(model, sample, **arguments)


def _shard(*names: str, **options: Any) -> Callable[[nn.Module, DeviceMesh], nn.Module]:
    def shard(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
        for name in names:
            fully_shard(model.get_submodule(name), mesh=mesh, **options)
        return model

    return shard


def _compiled_and_sharded(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    model[3].compile(backend="eager")
    return _shard("3")(model, mesh)


def _with_inplace(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    model.insert(4, nn.ReLU(inplace=True))
    return _shard("3")(model, mesh)


def _partitioned(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    model[3].linear.weight.ds_id = 7  # as deepspeed.zero.Init leaves it
    return model


def _fsdp1_inside(model: nn.Module, mesh: DeviceMesh, **options: Any) -> nn.Module:
    model[3] = FullyShardedDataParallel(model[3], device_id=torch.device("cpu"), **options)
    return model


def _fsdp1_outside(model: nn.Module, mesh: DeviceMesh, **options: Any) -> nn.Module:
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **options)


def _inside_of_fsdp1(model: nn.Module, mesh: DeviceMesh, **options: Any) -> nn.Module:
    _wrappers.append(_fsdp1_outside(model, mesh, **options))
    return model


def _part_in_ddp(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    model[3] = DistributedDataParallel(model[3])
    return model


def _part_of_ddp_elsewhere(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    _wrappers.append(DistributedDataParallel(model[3]))
    return model


def _tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    return parallelize_module(model, mesh, {"3.linear": ColwiseParallel()})


def _tensor_parallel_in_ddp(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    _wrappers.append(DistributedDataParallel(model))
    return _tensor_parallel(model, mesh)


def _distributed(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    distribute_module(
        model[3].linear,
        mesh,
        input_fn=lambda module, inputs, mesh: (DTensor.from_local(inputs[0], mesh, [Replicate()]),),
        output_fn=lambda module, output, mesh: output.to_local(),
    )
    return model


_wrappers: list[nn.Module] = []  # which outlive the call, as a training script's does
_WRAP = "fit the model and wrap it then"
_WHOLE = "wrap the whole model"
_FULLY_SHARD = "use fully_shard"
_FULLY_SHARD_OF_TWO = "call fully_shard on its layers, over a mesh of two dimensions"
_CASTS = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)

# By kind: what makes it of the model, and the begin and the end of the message.
CASES: dict[str, tuple[Callable[[nn.Module, DeviceMesh], nn.Module], str, str]] = {
    "FSDP1 inside": (_fsdp1_inside, "3 is sharded by FullyShardedDataParallel", _FULLY_SHARD),
    "FSDP1 outside": (
        _fsdp1_outside,
        "the model is sharded by FullyShardedDataParallel",
        _FULLY_SHARD,
    ),
    "a part of FSDP1": (
        _inside_of_fsdp1,
        "_flat_param is sharded by FullyShardedDataParallel",
        _FULLY_SHARD,
    ),
    "a part of FSDP1 with its parameters": (
        lambda model, mesh: _inside_of_fsdp1(model, mesh, use_orig_params=True),
        "0.linear.weight is sharded by FullyShardedDataParallel",
        _FULLY_SHARD,
    ),
    "tensor parallel in DDP": (
        _tensor_parallel_in_ddp,
        "3.linear.weight is a DTensor, and the model is wrapped in DistributedDataParallel",
        _FULLY_SHARD_OF_TWO,
    ),
    "DDP with a static graph": (
        lambda model, mesh: DistributedDataParallel(model, static_graph=True),
        "the model is wrapped in DistributedDataParallel with static_graph=True",
        _WRAP,
    ),
    "a part in DDP": (_part_in_ddp, "3 is wrapped in DistributedDataParallel", _WHOLE),
    "a part in DDP elsewhere": (
        _part_of_ddp_elsewhere,
        "3 is wrapped in DistributedDataParallel",
        _WHOLE,
    ),
    "ZeRO 3": (
        _partitioned,
        "3.linear.weight is partitioned by DeepSpeed's ZeRO 3",
        "use fully_shard, or ZeRO 1 or 2, and stowage.fit before deepspeed.initialize",
    ),
    "DataParallel": (
        lambda model, mesh: DataParallel(model),
        "the model is wrapped in DataParallel",
        _WRAP,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused_by_name_before_anything_runs(case: str, mesh: DeviceMesh) -> None:
    make, begin, end = CASES[case]
    model = make(models.make("blocks").model, mesh)
    random_state = torch.get_rng_state()
    handles = [module.register_forward_pre_hook(_never) for module in model.modules()]
    try:
        with pytest.raises(NotAChainError) as raised:
            _fit(model)
    finally:
        _wrappers.clear()
    assert str(raised.value).startswith(begin)
    assert end in str(raised.value)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(random_state, torch.get_rng_state())
    for handle in handles:
        handle.remove()
    loss_of(model(models.make("blocks").sample)).backward()  # the model is as it was


def _never(module: nn.Module, args: Any) -> None:
    raise AssertionError("the model ran")


# By kind: what makes it of the model, and the message, which needs to know the layers.
PARTS: dict[str, tuple[Callable[[nn.Module, DeviceMesh], nn.Module], str]] = {
    "part of a layer": (
        _shard("2.linear", "3"),
        "2.linear is sharded by fully_shard inside of the layer 2: call fully_shard on 2 in place "
        "of its parts",
    ),
    "compiled with its hooks": (
        _compiled_and_sharded,
        "3 is compiled by Module.compile() with the hooks of fully_shard: compile its forward "
        "alone, as in layer.forward = torch.compile(layer.forward)",
    ),
    "layers that run as one": (
        _with_inplace,
        "3..4 run as one, since a layer changes its input in place, and are sharded one by one: "
        "use inplace=False there",
    ),
}


@pytest.mark.parametrize("case", PARTS)
def test_what_is_sharded_in_parts_is_refused(case: str, mesh: DeviceMesh) -> None:
    make, message = PARTS[case]
    model = make(models.make("blocks").model, mesh)
    with pytest.raises(NotAChainError) as raised:
        _fit(model)
    assert str(raised.value) == message
    assert all(parameter.grad is None for parameter in model.parameters())
    loss_of(model(models.make("blocks").sample)).backward()  # the model is as it was


def test_a_model_in_the_middle_of_micro_batches_is_refused(mesh: DeviceMesh) -> None:
    model = _shard("2", "3", "")(models.make("blocks").model, mesh)
    model.set_requires_gradient_sync(False)
    torch.manual_seed(3)
    loss_of(model(models.make("blocks").sample)).backward()
    with pytest.raises(NotAChainError, match="not to reduce them, as between two micro-batches"):
        _fit(model)
    model.set_requires_gradient_sync(True)  # what is left of the first is still there
    with pytest.raises(NotAChainError, match=r"finish the step, and call stowage\.fit then"):
        _fit(model)
    plain = models.make("blocks").model
    torch.manual_seed(3)
    for _ in range(2):
        loss_of(plain(models.make("blocks").sample)).backward()
    torch.manual_seed(3)
    model(models.make("blocks").sample)  # draws what the first micro-batch has drawn
    loss_of(model(models.make("blocks").sample)).backward()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        whole = other.grad.full_tensor() if hasattr(other.grad, "full_tensor") else other.grad
        torch.testing.assert_close(one.grad, whole)
    assert _fit(model).answer is not None


def test_a_part_of_what_is_sharded_may_be_fitted_before_the_first_run(mesh: DeviceMesh) -> None:
    class Outer(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner
            self.head = nn.Linear(3, 3)

        def forward(self, value: Tensor) -> Tensor:
            return self.head(self.inner(value))

    def make() -> nn.Module:
        model = Outer(models.make("blocks").model)
        for layer in model.inner:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    gradients = []
    for fits in (False, True):
        model = make()
        if fits:
            assert _fit(model.inner).answer is not None
        torch.manual_seed(3)
        loss_of(model(models.make("blocks").sample)).backward()
        gradients.append([p.grad.to_local().clone() for p in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_layers_that_cast_their_outputs_are_refused(mesh: DeviceMesh) -> None:
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=_CASTS)
    with pytest.raises(NotAChainError, match=r"0 casts its output.*to the root's policy"):
        _fit(model)


def test_an_output_in_the_type_of_the_parameters_is_no_cast(mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.bfloat16)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    assert not any(casts_output(layer) for layer in model)
    fully_shard(model, mesh=mesh, mp_policy=_CASTS)
    assert casts_output(model)


def test_parameters_that_stay_whole_are_refused(mesh: DeviceMesh) -> None:
    model = _shard("2", "3", "")(models.make("blocks").model, mesh)
    model.set_reshard_after_backward(False)
    with pytest.raises(NotAChainError, match="leave set_reshard_after_backward"):
        _fit(model)


@pytest.mark.parametrize("shard", [_tensor_parallel, _distributed])
def test_layers_of_one_process_may_be_distributed(shard: Any, mesh: DeviceMesh) -> None:
    gradients = []
    for fits in (False, True):
        torch.manual_seed(3)
        model = shard(models.make("blocks").model, mesh)
        if fits:
            assert _fit(model).answer is not None
        torch.manual_seed(3)
        loss_of(model(models.make("blocks").sample)).backward()
        gradients.append([part_of(p.grad) for p in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


@pytest.mark.parametrize("shard", [_shard("2", "3"), _tensor_parallel])
@pytest.mark.parametrize("arguments", [{"run": "stowage"}, {"offload": True}])
def test_a_sharded_model_is_run_alone_alone(arguments: Any, shard: Any, mesh: DeviceMesh) -> None:
    model = shard(models.make("blocks").model, mesh)
    with pytest.raises(stowage.StowageError, match="leave run='stowage' and offload=True out"):
        _fit(model, **arguments)


def test_a_model_whose_wrapper_is_gone_is_fitted(mesh: DeviceMesh) -> None:
    model = models.make("blocks").model
    wrapper = DistributedDataParallel(model)
    wrapper.itself = [wrapper]  # a cycle: only the collector frees it
    del wrapper
    assert _fit(model).answer is not None


def test_collectives_of_one_process_are_no_reason(mesh: DeviceMesh) -> None:
    model = models.make("blocks").model
    model.insert(3, Reduces())
    assert _fit(model).answer is not None


class Reduces(nn.Module):
    """Adds what all processes have, as tensor parallel layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        value = self.linear(value)
        total = value.detach().clone()
        torch.distributed.all_reduce(total)
        return value + total


class ReducesFunctionally(Reduces):
    def forward(self, value: Tensor) -> Tensor:
        total = _functional_collectives.all_reduce(value, "sum", torch.distributed.group.WORLD)
        return self.linear(value) + total


class _ReducedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        torch.distributed.all_reduce(total)
        return total


class ReducesGradients(Reduces):
    """As what stands before a column of tensor parallel layers."""

    def forward(self, value: Tensor) -> Tensor:
        return self.linear(_ReducedGradient.apply(value))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.SyncBatchNorm(16)

    def forward(self, value: Tensor) -> Tensor:
        return self.norm(value)


def _with(layer: nn.Module) -> nn.Module:
    model = models.make("blocks").model
    model.insert(3, layer)
    return model


def _reduced_loss(output: Tensor) -> Tensor:
    loss = loss_of(output)
    torch.distributed.all_reduce(loss.detach().clone())
    return loss


def _sharded(mesh: DeviceMesh, shard: Callable[[nn.Module, DeviceMesh], nn.Module]) -> nn.Module:
    return shard(models.make("blocks").model, mesh)


def _sequence_parallel(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    model[4] = nn.LayerNorm(16, elementwise_affine=False)  # without any parameter
    return parallelize_module(model, mesh, {"4": SequenceParallel(sequence_dim=0)})


# By kind: what makes the model, further arguments of `fit`, and the begin of the message.
TOGETHER: dict[str, tuple[Callable[[DeviceMesh], nn.Module], dict[str, Any], str]] = {
    "all_reduce": (lambda mesh: _with(Reduces()), {}, "3 talks to other processes (c10d.allreduce"),
    "functional": (lambda mesh: _with(ReducesFunctionally()), {}, "3 talks to other processes"),
    "in the backward": (
        lambda mesh: _with(ReducesGradients()),
        {},
        "3 talks to other processes (c10d.allreduce_.default) in its backward",
    ),
    "in the loss": (
        lambda mesh: models.make("blocks").model,
        {"loss": _reduced_loss},
        "the model talks to other processes",
    ),
    "SyncBatchNorm": (lambda mesh: _with(Norm()), {}, "3.norm is a SyncBatchNorm"),
    "sequence parallel": (
        lambda mesh: _sharded(mesh, _sequence_parallel),
        {},
        "4 computes with DTensors",
    ),
}


def _failures(mesh: DeviceMesh, case: str) -> list[str]:
    make, arguments, begin = TOGETHER[case]
    model = make(mesh)
    try:
        _fit(model, **arguments)
    except NotAChainError as error:
        found = [] if str(error).startswith(begin) else [str(error)]
        found += [] if "torch.utils.checkpoint" in str(error) else [f"no remedy in: {error}"]
    else:
        found = ["was fitted"]
    found += [
        f"{name} has a gradient" for name, p in model.named_parameters() if p.grad is not None
    ]
    return found


def _alone(rank: int) -> list[str]:
    """Nothing waits for the other process, which does not fit its model."""
    if rank > 0:
        return []
    try:
        _fit(_with(Reduces()))
    except NotAChainError:
        return []
    return ["was fitted"]


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
    mesh = init_device_mesh("cpu", (_PROCESSES,))
    found: dict[str, list[str]] = {}
    for case in ("alone", *TOGETHER):
        try:
            found[case] = _alone(rank) if case == "alone" else _failures(mesh, case)
        except Exception:
            found[case] = [traceback.format_exc()]
        torch.distributed.barrier()
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # gloo's threads may still end work, and would die where Python has ended


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """By process and case. The processes, whose start takes the most time, start once."""
    folder = tmp_path_factory.mktemp("sharded")
    processes.run_all(_PROCESSES, _run_all, str(folder))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(_PROCESSES)]


@pytest.mark.parametrize("case", ["alone", *TOGETHER])
def test_every_process_refuses(case: str, failures: list[dict[str, list[str]]]) -> None:
    assert [of_process[case] for of_process in failures] == [[], []]

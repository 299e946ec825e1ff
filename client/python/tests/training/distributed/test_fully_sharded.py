"""Models that fully_shard, parallelize_module or DistributedDataParallel has spread over processes
train as without `fit`.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import pathlib
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import models
import processes
import pytest
import torch
import torch.distributed
from models import Example, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import stowage
from stowage.torch.distributed.wrapping import unwrapped
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Workload, metered_step

_BUDGETS = ("40%", "0%")
_MOST_STEPS = 60


def _layers_of(model: nn.Module) -> nn.ModuleList | nn.Sequential:
    if hasattr(model, "transformer"):
        return model.transformer.h
    return model.model.layers if hasattr(model, "model") else model


def _shard(
    example: str = "gpt2", *, root: bool = True, **options: Any
) -> Callable[[DeviceMesh], Example]:
    def make(mesh: DeviceMesh) -> Example:
        found = models.make(example)
        for layer in _layers_of(found.model):
            fully_shard(layer, mesh=mesh, **options)
        if root:
            fully_shard(found.model, mesh=mesh, **options)
        return found

    return make


def _shard_root(mesh: DeviceMesh) -> Example:
    found = models.make("gpt2")
    fully_shard(found.model, mesh=mesh)
    return found


def _shard_neighbours(mesh: DeviceMesh) -> Example:
    found = models.make("llama")
    fully_shard(found.model.model.embed_tokens, mesh=mesh)
    fully_shard(found.model.lm_head, mesh=mesh)
    for layer in found.model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(found.model, mesh=mesh)
    return found


def _freeze_some(mesh: DeviceMesh) -> Example:
    found = models.make("gpt2")
    for layer in _layers_of(found.model)[:2]:
        layer.attn.requires_grad_(False)
    for layer in _layers_of(found.model):
        fully_shard(layer, mesh=mesh)
    fully_shard(found.model, mesh=mesh)
    return found


def _gather_ahead(mesh: DeviceMesh) -> Example:
    found = _shard()(mesh)
    layers = list(_layers_of(found.model))
    for number, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[number + 1 : number + 4])
        layer.set_modules_to_backward_prefetch(layers[max(0, number - 3) : number][::-1])
    return found


def _compile_forwards(mesh: DeviceMesh) -> Example:
    found = _shard("blocks")(mesh)
    for layer in found.model:
        layer.forward = torch.compile(layer.forward, backend="aot_eager")
    return found


def _wrap(name: str = "gpt2", **options: Any) -> Callable[[DeviceMesh], Example]:
    def make(mesh: DeviceMesh) -> Example:
        found = models.make(name)
        return Example(DistributedDataParallel(found.model, **options), found.sample)

    return make


_OF_LLAMA = {
    "self_attn.q_proj": ColwiseParallel(),
    "self_attn.k_proj": ColwiseParallel(),
    "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}


def _parallelize(mesh: DeviceMesh) -> Example:
    found = models.make("llama")
    model = found.model.model
    for layer in model.layers:
        parallelize_module(layer, mesh, _OF_LLAMA)
    parallelize_module(model, mesh, {"embed_tokens": RowwiseParallel(input_layouts=Replicate())})
    parallelize_module(found.model, mesh, {"lm_head": ColwiseParallel(output_layouts=Replicate())})
    return found


def _parallelize_and_shard(mesh: DeviceMesh) -> Example:
    found = _parallelize(mesh["shard"])
    for layer in found.model.model.layers:
        fully_shard(layer, mesh=mesh["replicate"])
    fully_shard(found.model, mesh=mesh["replicate"])
    return found


class _Feed(nn.Module):
    """A residual multilayer perceptron, by sequence: its values are parts between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.grow = nn.Linear(32, 128)
        self.shrink = nn.Linear(128, 32)

    def forward(self, value: Tensor) -> Tensor:
        return value + self.shrink(nn.functional.gelu(self.grow(self.norm(value))))


class _Sequences(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Feed() for _ in range(6))
        self._mesh = mesh

    def forward(self, value: Tensor) -> Tensor:
        value = DTensor.from_local(value, self._mesh, [Shard(1)])
        for layer in self.layers:
            value = layer(value)
        return value.to_local()


def _parallelize_by_sequence(mesh: DeviceMesh) -> Example:
    model = _Sequences(mesh)
    plan = {
        "norm": SequenceParallel(),
        "grow": ColwiseParallel(input_layouts=Shard(1)),
        "shrink": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return Example(model, torch.randn(4, 16, 32))


_OF_FEED = {"grow": ColwiseParallel(), "shrink": RowwiseParallel()}


class _GatheringFeed(_Feed):
    """Gathers a sequence, of which each process has a part, and hands its part on."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self._mesh = mesh

    def forward(self, part: Tensor, length: int) -> Tensor:
        like = torch.empty(len(part), length, 32, device="meta")
        sequence = DTensor.from_local(
            part, self._mesh, [Shard(1)], shape=like.shape, stride=like.stride()
        )
        whole = super().forward(sequence.full_tensor())
        return part + whole.chunk(2, 1)[self._mesh.get_local_rank()]


class _PartsOfSequences(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_GatheringFeed(mesh) for _ in range(6))
        self._mesh = mesh

    def forward(self, whole: Tensor) -> Tensor:
        part = whole.chunk(2, 1)[self._mesh.get_local_rank()].clone()
        for layer in self.layers:
            part = layer(part, whole.shape[1])
        return part


def _parallelize_with_parts(mesh: DeviceMesh) -> Example:
    model = _PartsOfSequences(mesh)
    for layer in model.layers:
        parallelize_module(layer, mesh, _OF_FEED)
    return Example(model, torch.randn(4, 16, 32))


def _with_uneven_parts(example: Example) -> list[Example]:
    """With the sample, and with one of which only the first process has a larger part."""
    longer = torch.cat([example.sample, example.sample[:, :1]], 1)
    return [example, Example(example.model, longer)]


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(_Feed() for _ in range(6))
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        value = self.embedding(ids)
        for layer in self.layers:
            value = layer(value)
        return self.head(value)


def _language() -> Example:
    return Example(_Language(), torch.randint(0, 64, (4, 32)))


def _parallelize_embedding(mesh: DeviceMesh) -> Example:
    found = _language()
    for layer in found.model.layers:
        parallelize_module(layer, mesh, _OF_FEED)
    ends = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(found.model, mesh, ends)
    return found


def _tie(mesh: DeviceMesh) -> Example:
    found = _parallelize_embedding(mesh)
    found.model.head.weight = found.model.embedding.weight
    return found


def _parallelize_head_and_shard_layers(mesh: DeviceMesh) -> Example:
    """No tensor is on both dimensions of the mesh."""
    found = _language()
    plan = {"head": ColwiseParallel(output_layouts=Replicate())}
    parallelize_module(found.model, mesh["shard"], plan)
    for layer in found.model.layers:
        fully_shard(layer, mesh=mesh["replicate"])
    return found


@dataclass(frozen=True)
class Case:
    make: Callable[[DeviceMesh], Example]
    shape: tuple[int, ...] = (2,)
    run: str = "torch"
    steps: Callable[[Example], list[Example]] = lambda example: [example]  # to train with, in turn
    shared: str = ""  # the parameter that is used twice


_LOW = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
CASES = {
    "each layer and the root": Case(_shard()),
    "each layer": Case(_shard("blocks", root=False)),
    "the root": Case(_shard_root),
    "not after the forward": Case(_shard(reshard_after_forward=False)),
    "always after the forward": Case(_shard(reshard_after_forward=True)),
    "neighbours": Case(_shard_neighbours),
    "gathered ahead": Case(_gather_ahead),
    "some frozen": Case(_freeze_some),
    "mixed precision": Case(_shard("llama", mp_policy=_LOW)),
    "compiled forwards": Case(_compile_forwards),
    "four processes": Case(_shard(), (4,)),
    "replicas of two": Case(_shard("llama"), (2, 2)),
    "tensor parallel": Case(_parallelize),
    "tensor parallel by sequence": Case(_parallelize_by_sequence),
    "tensor parallel with uneven parts": Case(_parallelize_with_parts, steps=_with_uneven_parts),
    "tensor parallel embedding": Case(_parallelize_embedding),
    "tensor parallel and tied": Case(_tie, shared="embedding.weight"),
    "tensor parallel and sharded": Case(_parallelize_and_shard, (2, 2)),
    "tensor parallel or sharded": Case(_parallelize_head_and_shard_layers, (2, 2)),
    "DDP": Case(_wrap(), run=""),
    "DDP of layers that are no chain": Case(_wrap("t5"), run=""),
    "DDP with views": Case(_wrap(gradient_as_bucket_view=True), run=""),
    "DDP with unused": Case(_wrap(find_unused_parameters=True), run=""),
}


def _train(example: Example, rank: int) -> list[Any]:
    """Losses, clipped norms of gradients, and sums of the parameters of a few steps."""
    model = example.model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    seen: list[Any] = []
    for _ in range(3):
        for micro_batch in range(2):
            with _no_sync(model, micro_batch == 0):
                loss = loss_of(example.forward())
                (loss / 2).backward()
            seen.append(loss.item())
        for parameters in _by_mesh(model):
            seen.append(_whole(nn.utils.clip_grad_norm_(parameters, 0.1)))
        optimizer.step()
        optimizer.zero_grad()
    return [*seen, *(float(_part(p).double().sum()) for p in model.parameters())]


def _train_in_turn(case: Case, example: Example, rank: int) -> list[list[Any]]:
    return [_train(each, rank) for each in case.steps(example)]


def _by_mesh(model: nn.Module) -> list[list[Tensor]]:
    """Norms are of tensors of one mesh."""
    found: dict[Any, list[Tensor]] = {}
    for parameter in model.parameters():
        found.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(found.values())


@contextlib.contextmanager
def _no_sync(model: nn.Module, is_first: bool) -> Any:
    if isinstance(model, DistributedDataParallel):
        with model.no_sync() if is_first else contextlib.nullcontext():
            yield
        return
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(not is_first)
    yield


def _part(tensor: Tensor) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _whole(tensor: Tensor) -> float:
    return float(tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor)


def _fit(example: Example, **more: Any) -> stowage.torch.Fitted:
    arguments = {"activations": "15%", "loss": loss_of, "verbose": False, **more}
    return stowage.fit(example.model, example.sample, **arguments)


def _failures(case: Case, mesh: DeviceMesh, rank: int) -> list[str]:
    torch.manual_seed(0)
    plain = _train_in_turn(case, case.make(mesh), rank)
    found = []
    for budget in _BUDGETS:
        torch.manual_seed(0)
        example = case.make(mesh)
        torch.manual_seed(rank)
        fitted = _fit(example, activations=budget)
        gradients = [n for n, p in example.model.named_parameters() if p.grad is not None]
        if gradients:
            found.append(f"{budget}: {gradients[0]} has a gradient")
        if _train_in_turn(case, example, rank) != plain:
            found.append(f"{budget}: other gradients")
        report = stowage.report(example.model)
        if not any(layer.kept != "all" for layer in report.layers):
            found.append(f"{budget}: nothing is recomputed")
        if case.run and fitted.route.run != case.run:
            found.append(f"{budget}: {fitted.route}")
        if case.shared:
            shared = _part(example.model.get_parameter(case.shared)).nbytes
            if fitted.profile.memory.shared != shared:
                found.append(f"{budget}: {fitted.profile.memory.shared} for {shared} are shared")
        peak = _least_peak(example, 1.05 * fitted.activations)
        if peak > 1.05 * fitted.activations:
            found.append(f"{budget}: {peak} of {fitted.activations}")
        schedules = _gathered(None if fitted.answer is None else fitted.answer.schedule)
        if fitted.answer is not None and any(other != schedules[0] for other in schedules):
            found.append(f"{budget}: unlike plans")
        stowage.unfit(example.model)
    return found


def _least_peak(example: Example, budget: float) -> int:
    """Of steps, until one is within the budget in all processes: threads of gloo let go of what
    they have sent when they come to it.
    """
    work = Workload(example.forward, loss_of, torch.device("cpu"))
    least = 1 << 60
    with unchanged(unwrapped(example.model)):
        for _ in range(_MOST_STEPS):
            least = min(least, metered_step(work)[1])
            if max(_gathered(least)) <= budget:
                break
    return least


def _gathered(value: Any) -> list[Any]:
    values: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def _run_all(rank: int, size: int, folder: str) -> None:
    """Runs in each process. Writes what fails in each case."""
    _begin(rank, size, folder)
    found: dict[str, list[str]] = {}
    for name, case in CASES.items():
        if torch.Size(case.shape).numel() == size:
            names = ("replicate", "shard")[-len(case.shape) :]
            mesh = init_device_mesh("cpu", case.shape, mesh_dim_names=names)
            try:
                found[name] = _failures(case, mesh, rank)
            except Exception:
                found[name] = [traceback.format_exc()]
                break  # the others may wait elsewhere
            torch.distributed.barrier()
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # gloo's threads may still end work, and would die where Python has ended


def _begin(rank: int, size: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )


@pytest.fixture(scope="module")
def failures(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[int], list[dict[str, list[str]]]]:
    """Of so many processes, by process and case. The processes start once."""

    @functools.cache
    def run(size: int) -> list[dict[str, list[str]]]:
        folder = tmp_path_factory.mktemp("sharded")
        processes.run_all(size, _run_all, size, str(folder))
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]

    return run


@pytest.mark.parametrize("name", CASES)
def test_trains_as_without(name: str, failures: Any) -> None:
    size = torch.Size(CASES[name].shape).numel()
    assert [of_process.get(name, ["did not run"]) for of_process in failures(size)] == [[]] * size


def _fails(output: Any) -> Tensor:
    raise ValueError("no loss here")


def _ends(output: Any) -> Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("is gone")


def _of_two_calls(loss: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """As the loss of training, first; in the middle of what is measured, `loss`."""
    calls = 0

    def of(output: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return loss_of(output) if calls < 5 else loss(output)

    return of


class _Slow(nn.Module):
    """Takes longer in one process than in the other."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, value: Tensor) -> Tensor:
        if torch.distributed.get_rank() == 1:
            torch.linalg.eigh(torch.eye(60))
        return self.inner(value)


def _slow(mesh: DeviceMesh) -> Example:
    found = models.make("blocks")
    for number in (2, 3, 5):
        found.model[number] = _Slow(found.model[number])
    for layer in found.model:
        fully_shard(layer, mesh=mesh)
    fully_shard(found.model, mesh=mesh)
    return found


def _larger(example: Example) -> Example:
    ids = torch.cat([example.sample["input_ids"]] * 2)
    return Example(example.model, {"input_ids": ids, "labels": ids})


def _on_a_failure(rank: int, mesh: DeviceMesh) -> Any:
    _fit(_shard()(mesh), loss=_of_two_calls(_fails) if rank == 1 else loss_of)


def _on_a_kill(rank: int, mesh: DeviceMesh) -> Any:
    _fit(_shard()(mesh), loss=_of_two_calls(_ends) if rank == 1 else loss_of)


def _on_unlike_calls(rank: int, mesh: DeviceMesh) -> Any:
    _fit(_shard()(mesh), measure=rank == 0)


def _on_a_wrong_call(rank: int, mesh: DeviceMesh) -> Any:
    _fit(_shard()(mesh), run="anyhow" if rank == 1 else "auto")


def _on_a_failure_in_ddp(rank: int, mesh: DeviceMesh) -> Any:
    """Both raise, and train as they are."""
    example = _wrap()(mesh)
    try:
        _fit(example, loss=_of_two_calls(_fails) if rank == 1 else loss_of)
    except ValueError as error:
        _train(example, rank)
        return str(error)


def _on_a_forward_of_ddp(rank: int, mesh: DeviceMesh) -> Any:
    """Without its backward; what training gives after the error."""
    seen = []
    for fits in (False, True):
        torch.manual_seed(0)
        example = _wrap()(mesh)
        loss_of(example.forward())
        if fits:
            try:
                _fit(example)
            except stowage.StowageError as error:
                message = str(error)
        seen.append(_train(example, rank))
    return [*seen, message]


def _on_unlike_samples(rank: int, mesh: DeviceMesh) -> Any:
    example = _shard()(mesh)
    _fit(_larger(example) if rank == 1 else example)


def _on_too_little(rank: int, mesh: DeviceMesh) -> Any:
    _fit(_shard()(mesh), activations=1000 if rank == 1 else "50%")


def _on_unequal_times(rank: int, mesh: DeviceMesh) -> Any:
    fitted = _fit(_slow(mesh), activations="40%")
    assert fitted.answer is not None
    return [repr(fitted.profile.chain), repr(fitted.answer.schedule)]


def _on_other_sizes_in_parallel(rank: int, mesh: DeviceMesh) -> Any:
    """What steps of larger and smaller inputs give, in all processes alike."""
    seen: list[Any] = []
    for fits in (False, True):
        torch.manual_seed(0)
        example = _parallelize(mesh)
        if fits:
            fitted = _fit(example)
            assert fitted.answer is not None
        for other in (_larger(example), example, _shorter(example), _larger(example)):
            seen.append(_train(other, rank))
    return seen[:4] == seen[4:]


def _shorter(example: Example) -> Example:
    ids = example.sample["input_ids"][:, :-3]
    return Example(example.model, {"input_ids": ids, "labels": ids})


def _on_other_sizes(rank: int, mesh: DeviceMesh) -> Any:
    """What steps of another size give; in one process, of the sample's."""
    seen = []
    for fits in (False, True):
        torch.manual_seed(0)
        example = _shard()(mesh)
        if fits:
            torch.manual_seed(rank)
            fitted = _fit(example)
        mine = _larger(example) if rank == 1 else example
        for _ in range(2):
            seen.append(_train(mine, rank))
            if fits:
                fitted.coordinator.other_sizes.wait()
    return seen[:2] == seen[2:]


def _from_a_cache(folder: str, rank: int, mesh: DeviceMesh) -> Any:
    sources = []
    for _ in range(2):
        example = _shard()(mesh)
        fitted = _fit(example, plan_cache=folder)
        sources.append(fitted.source)
        stowage.unfit(example.model)
    return [*sources, len(os.listdir(folder))]


def _run_one(rank: int, folder: str, run: Callable[[int, DeviceMesh], Any]) -> None:
    """Writes what `run` returns, or the error's type and message."""
    _begin(rank, 2, folder)
    torch.manual_seed(0)
    try:
        result = run(rank, init_device_mesh("cpu", (2,)))
    except Exception as error:
        result = [type(error).__name__, str(error)]
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(result))
    os._exit(0)  # the other one may wait


def _results(folder: pathlib.Path, run: Callable[[int, DeviceMesh], Any]) -> list[Any]:
    """By process; None: it was killed."""
    for process in processes.start(2, _run_one, str(folder), run).processes:
        process.join()
    files = [folder / f"{rank}.json" for rank in range(2)]
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


def test_a_process_that_fails_ends_the_others_with_its_message(tmp_path: pathlib.Path) -> None:
    assert _results(tmp_path, _on_a_failure) == [
        ["StowageError", "process 1 has failed: no loss here"],
        ["ValueError", "no loss here"],
    ]


def test_a_process_that_is_killed_ends_the_others(tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, _on_a_kill)
    assert second is None
    assert first[0] == "RuntimeError"


@pytest.mark.parametrize(
    ("run", "begin"),
    [
        (_on_unlike_calls, "measure: process 1 has another than process 0"),
        (_on_a_wrong_call, "run: is 'anyhow'"),
    ],
)
def test_unlike_calls_are_refused_everywhere(run: Any, begin: str, tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, run)
    assert first == second
    assert first[1].startswith(begin)


def test_a_failure_in_ddp_is_everybodys(tmp_path: pathlib.Path) -> None:
    assert _results(tmp_path, _on_a_failure_in_ddp) == ["no loss here", "no loss here"]


def test_a_forward_of_ddp_without_its_backward_is_named(tmp_path: pathlib.Path) -> None:
    for plain, after, message in _results(tmp_path, _on_a_forward_of_ddp):
        assert after == pytest.approx(plain, rel=1e-4)  # its buckets are others
        assert "waits for the backward of an earlier forward" in message


def test_samples_of_unlike_sizes_are_refused_everywhere(tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, _on_unlike_samples)
    assert first == second
    assert first[0] == "StowageError"
    assert first[1].startswith("sample: process 1 has another than process 0")


def test_the_least_budget_counts_and_is_refused_everywhere(tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, _on_too_little)
    assert first == second
    assert first[0] == "InfeasibleError"


def test_unequal_times_give_one_plan(tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, _on_unequal_times)
    assert first == second
    assert first[0].startswith("Chain(")


def test_processes_may_have_inputs_of_other_sizes(tmp_path: pathlib.Path) -> None:
    assert _results(tmp_path, _on_other_sizes) == [True, True]


def test_tensor_parallel_processes_run_one_plan_for_other_sizes(tmp_path: pathlib.Path) -> None:
    assert _results(tmp_path, _on_other_sizes_in_parallel) == [True, True]


def test_the_first_process_keeps_the_profile(tmp_path: pathlib.Path) -> None:
    first, second = _results(tmp_path, functools.partial(_from_a_cache, str(tmp_path / "plans")))
    assert first == second
    assert first[1] == "plan file"

"""Copies to host memory and back on a GPU: content, order, lifetime. Most need one."""

from __future__ import annotations

import contextlib
import functools
import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import cuda_double
import models
import pytest
import torch
from device import DEVICE, generator
from models import Example, differences, loss_of, train
from torch import Tensor, nn

import stowage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.program import Program, Step
from stowage.torch.layers.stage import Stage
from stowage.torch.tensors.storages import Block
from stowage.torch.tensors.transfers import CudaTransfers, pieces_of, transfers_for
from stowage.torch.tensors.values import Value

on_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs STOWAGE_TEST_DEVICE=cuda")


@pytest.mark.parametrize("size", [0, 1, 4095, 4097, 3 << 20, (5 << 20) + 1, (1 << 30) - 1, 10**10])
def test_pieces_hold_a_block_and_little_more(size: int) -> None:
    pieces = pieces_of(size)
    assert all(piece & (piece - 1) == 0 for piece in pieces)
    assert size <= sum(pieces) <= max(size + size // 8, -(-size // 4096) * 4096)
    assert len(pieces) <= 4


def _block(size: int, seed: int) -> tuple[Block, Tensor]:
    tensor = torch.empty(size, dtype=torch.uint8, device=DEVICE).random_(generator=generator(seed))
    return Block.of(tensor), tensor.clone()


def _content(block: Block) -> Tensor:
    assert block.storage is not None
    return torch.empty(0, dtype=torch.uint8, device=block.device).set_(block.storage)


@on_gpu
def test_what_comes_back_is_what_went() -> None:
    chance = random.Random(0)
    transfers = CudaTransfers(DEVICE)
    wrong = torch.zeros((), dtype=torch.long, device=DEVICE)
    for turn in range(40):  # the host does not wait in between
        sizes = [chance.choice([1, 700, 5 << 20, (48 << 20) + 12]) for _ in range(3)]
        made = [_block(size, turn) for size in sizes]
        blocks = [block for block, _ in made]
        transfers.offload(blocks)
        transfers.release(blocks)
        for size in sizes:  # takes the memory that was freed, and writes it
            torch.full((size,), 17, dtype=torch.uint8, device=DEVICE)
        wait = transfers.prefetch(blocks)
        assert wait is not None
        wait()
        for block, expected in made:
            wrong += (_content(block) != expected).sum()
    assert int(wrong) == 0


@on_gpu
def test_memory_that_is_still_written_is_not_used_anew() -> None:
    transfers = CudaTransfers(DEVICE)
    block, _ = _block(256 << 20, 0)
    transfers.offload([block])
    transfers.release([block])
    transfers.prefetch([block])
    block.storage = None  # as where a step ends by an error
    other = torch.full((256 << 20,), 17, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize(DEVICE)
    assert bool((other == 17).all())
    transfers.prefetch([])
    assert transfers._arriving == {}


@pytest.mark.parametrize(
    ("sizes", "travel"),
    [
        ([100, 4096, 65536, 64 << 20], [64 << 20]),
        ([65537, 64 << 20], [65537, 64 << 20]),  # too large to stay
        ([20000, 60000, 65000, 64 << 20], [65000, 64 << 20]),  # too many to stay
        ([100, 200, 5000], [100, 200, 5000]),  # too much of the value
    ],
)
def test_the_smallest_blocks_stay_on_the_device(sizes: list[int], travel: list[int]) -> None:
    value = Value(None)
    tensors = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    for tensor in tensors:
        value.view_of(tensor)
    assert [block.bytes for block in value.travelers()] == travel


@on_gpu
def test_blocks_on_the_host_stay_there() -> None:
    transfers = transfers_for(DEVICE)
    block = Block.of(torch.full((9,), 3, dtype=torch.uint8, device="cpu"))
    transfers.offload([block])
    transfers.release([block])
    assert block.storage is not None
    transfers.prefetch([block])
    assert block.storage.tolist() == [3] * 9


@pytest.mark.parametrize("seed", range(30))
def test_every_order_of_streams_brings_back_what_went(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    double = cuda_double.put_in_place(monkeypatch, seed)
    cpu = torch.device("cpu")
    chance = random.Random(seed)
    found: list[tuple[int, Tensor]] = []
    waits: list[Callable[[], None]] = []
    with double:
        transfers = CudaTransfers(cpu)
        for turn in range(12):
            tensors = [torch.zeros(size, dtype=torch.uint8, device=cpu) for size in (5, 9000, 5)]
            blocks = [Block.of(tensor) for tensor in tensors]
            double.compute.queue.append(functools.partial(_fill, tensors, turn))
            transfers.offload(blocks)
            while waits:
                waits.pop()()
            double.run_some()
            transfers.release(blocks)
            # What uses the memory until the copies back get it.
            double.compute.queue.append(functools.partial(_fill, tensors, 99))
            for tensor in tensors:
                double.freed.setdefault(tensor.nbytes, []).append(tensor)
            double.run_some()
            arrives = transfers.prefetch(blocks)
            assert arrives is not None
            back = [_content(block) for block in blocks]

            def wait(turn: int = turn, arrives: Any = arrives, back: list[Tensor] = back) -> None:
                arrives()
                double.compute.queue.append(functools.partial(_note, back, turn, found))

            waits.append(wait)
            if chance.random() < 0.5:  # else after what the next value does
                waits.pop()()
            double.run_some()
        while waits:
            waits.pop()()
        double.run_all()
    assert len(found) == 36
    assert all(bool((tensor == value).all()) for value, tensor in found)


def _fill(tensors: list[Tensor], value: int) -> None:
    for tensor in tensors:
        tensor.fill_(value)


def _note(tensors: list[Tensor], value: int, found: list[tuple[int, Tensor]]) -> None:
    found += [(value, tensor.clone()) for tensor in tensors]


class Wide(nn.Module):
    """A layer whose values are some MiB, with dropout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, value: Tensor) -> Tensor:
        grown = nn.functional.gelu(self.up(self.norm(value)))
        return value + self.dropout(self.down(grown))


def _wide(rows: int, width: int) -> Example:
    torch.manual_seed(0)
    model = nn.Sequential(*(Wide(width) for _ in range(10)))
    return Example(model, torch.randn(rows, width))


def _small() -> Example:
    return _wide(4096, 512) if DEVICE.type == "cuda" else _wide(64, 32)


def _everything_offloaded(length: int) -> stowage.Schedule:
    """Every value but the last goes to the host, and comes back while a backward runs."""
    kind = stowage.OperationKind
    order = [(kind.FORWARD_SAVE, 1)]
    for stage in range(2, length + 1):
        order += [
            (kind.OFFLOAD, stage - 1),
            (kind.FORWARD_SAVE, stage),
            (kind.RELEASE, stage - 1),
        ]
    order += [(kind.FORWARD_SAVE, length + 1), (kind.BACKWARD, length + 1)]
    order += [(kind.PREFETCH, length - 1)]
    for stage in range(length, 0, -1):
        order += [(kind.PREFETCH, stage - 2)] if stage > 2 else []
        order += [(kind.BACKWARD, stage)]
    return stowage.Schedule(
        operations=tuple(stowage.Operation(kind=step, stage=stage) for step, stage in order)
    )


def test_transfers_before_the_losss_backward_run_before_the_loss() -> None:
    kind = stowage.OperationKind
    order = [
        (kind.FORWARD_SAVE, 1),
        (kind.OFFLOAD, 0),
        (kind.FORWARD_SAVE, 2),
        (kind.RELEASE, 0),
        (kind.FORWARD_SAVE, 3),  # the loss
        (kind.PREFETCH, 0),
        (kind.BACKWARD, 3),
        (kind.BACKWARD, 2),
        (kind.BACKWARD, 1),
    ]
    operations = tuple(stowage.Operation(kind=step, stage=stage) for step, stage in order)
    program = Program.of(stowage.Schedule(operations=operations), 2)
    assert program.operations[program.before_loss] == (Step.PREFETCH, 0)
    example = models.blocks(length=2)
    fitted = stowage.fit(
        example.model,
        example.sample,
        activations="100%",
        loss=loss_of,
        layers=list(example.model),
        verbose=False,
    )
    loss = fitted.profile.chain.loss
    assert loss is not None
    # Else a schedule would count on copies beside the loss's forward, and the GPU would wait there.
    assert loss.forward_seconds == 0 < loss.backward_seconds
    stages = (*fitted.profile.chain.stages, loss)
    inside = sum(stage.forward_seconds + stage.backward_seconds for stage in stages)
    assert inside <= (fitted.profile.plain_seconds or 0.0) * 1.0001


@contextlib.contextmanager
def _offloading(example: Example) -> Iterator[None]:
    length = len(example.model)
    schedule = _everything_offloaded(length)
    stage = stowage.Stage(output_bytes=1, saved_bytes=2)
    chain = stowage.Chain(stages=(stage,) * length, loss=stowage.Stage())
    platform = stowage.Platform(memory_bytes=2**40, offload_bytes_per_second=1e9)
    stowage.simulate(chain, platform, schedule)  # it is valid
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(example.model)]
    program = Program.of(schedule, length)
    coordinator = Coordinator(stages, program, transfers_for(DEVICE), (0,))
    coordinator.install()
    try:
        yield
    finally:
        coordinator.remove()


def test_training_with_transfers_is_equal_to_the_bit() -> None:
    expected = train(_small())
    example = _small()
    with _offloading(example):
        assert differences(expected, train(example)) == []


@on_gpu
def test_peaks_are_as_predicted() -> None:
    example = _wide(rows=8192, width=1024)
    for activations in ("10%", "40%"):
        for offload in (False, True):
            fitted = stowage.fit(
                example.model,
                example.sample,
                activations=activations,
                loss=loss_of,
                verbose=False,
                offload=offload,
            )
            assert fitted.measured_peak_bytes is not None
            assert fitted.predicted_peak_bytes is not None
            assert fitted.measured_peak_bytes < fitted.activations * 1.01, fitted
            # The prediction counts the sample, which is there before the step, and the last layer's
            # output, which is gone by then where the loss alone has read it.
            chain = fitted.profile.chain
            less = chain.input_bytes + chain.stages[-1].output_bytes
            assert (
                fitted.predicted_peak_bytes * 0.98 - less
                < fitted.measured_peak_bytes
                < fitted.predicted_peak_bytes * 1.02
            ), fitted


@on_gpu
@pytest.mark.parametrize("name", ["blocks", "vit", "resnet50"])
def test_a_step_does_not_wait_for_the_gpu(name: str) -> None:
    example = models.make(name)
    stowage.fit(example.model, example.sample, activations="20%", loss=loss_of, verbose=False)
    _step_without_waiting(example)


@on_gpu
def test_a_step_with_transfers_does_not_wait_for_the_gpu() -> None:
    example = _small()
    with _offloading(example):
        _step_without_waiting(example)


def _step_without_waiting(example: Example) -> None:
    for _ in range(2):
        loss_of(example.forward()).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss_of(example.forward()).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@on_gpu
def test_pinned_memory_is_kept_for_the_next_step() -> None:
    example = _small()
    with _offloading(example):
        loss_of(example.forward()).backward()
        before = torch.cuda.host_memory_stats()["num_host_alloc"]
        for _ in range(3):
            loss_of(example.forward()).backward()
        assert torch.cuda.host_memory_stats()["num_host_alloc"] == before


@on_gpu
def test_training_on_a_stream_of_the_callers() -> None:
    expected = train(_small())
    example = _small()
    side = torch.cuda.Stream(DEVICE)
    side.wait_stream(torch.cuda.current_stream(DEVICE))
    with torch.cuda.stream(side), _offloading(example):
        found = train(example)
    torch.cuda.synchronize(DEVICE)
    assert differences(expected, found) == []


def _scaled(example: Example) -> list[Tensor]:
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(example.model.parameters(), 0.01)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**20)
    for _ in range(4):  # the first gradients overflow
        with torch.autocast(DEVICE.type, torch.float16):
            loss = loss_of(example.forward())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return [*example.model.parameters(), torch.tensor(scaler.get_scale())]


@on_gpu
def test_scaled_gradients_of_float16() -> None:
    expected = _scaled(_small())
    example = _small()
    with _offloading(example):
        found = _scaled(example)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


@on_gpu
def test_a_step_that_runs_out_of_memory_leaves_nothing() -> None:
    def fails(*_: Any) -> None:
        raise torch.OutOfMemoryError("on purpose")

    example = _small()
    with _offloading(example):
        loss_of(example.forward()).backward()
        torch.cuda.synchronize(DEVICE)
        before = torch.cuda.memory_allocated(DEVICE)
        handle = example.model[2].up.register_full_backward_hook(fails)
        for _ in range(3):
            with pytest.raises(torch.OutOfMemoryError, match="on purpose"):
                loss_of(example.forward()).backward()
        handle.remove()
        loss_of(example.forward()).backward()
        gc.collect()
        assert torch.cuda.memory_allocated(DEVICE) <= before + (1 << 20)

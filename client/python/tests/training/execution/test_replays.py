"""Replays that end early: what is measured of them, and which operations of a schedule they are."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import models
import pytest
import torch
import transformers
from device import DEVICE, generator
from models import Example, loss_of
from schedules import Profiled, profiled, random_transfers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import stowage
from stowage.planner import Planned
from stowage.simulation import simulate
from stowage.torch.choosing.best_plan import best_plan
from stowage.torch.execution.program import Program
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Workload, metered_step
from stowage.torch.profiling.profiler import Profile

_LAYERS = 6


def _gpt2() -> Example:
    config = transformers.GPT2Config(
        n_layer=_LAYERS, n_embd=96, n_head=4, vocab_size=100, n_positions=96, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return Example(transformers.GPT2LMHeadModel(config), _tokens())


def _llama() -> Example:
    config = transformers.LlamaConfig(
        num_hidden_layers=_LAYERS, hidden_size=96, intermediate_size=256, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=100, use_cache=False,
    )  # fmt: skip
    return Example(transformers.LlamaForCausalLM(config), _tokens())


def _tokens() -> dict[str, Tensor]:
    ids = torch.randint(0, 100, (4, 96), generator=generator(4))
    return {"input_ids": ids, "labels": ids}


def _blocks_of(model: nn.Module) -> list[nn.Module]:
    return list(model.transformer.h if hasattr(model, "transformer") else model.model.layers)


@contextlib.contextmanager
def _every_block_checkpointed(model: nn.Module) -> Iterator[None]:
    blocks = _blocks_of(model)
    for block in blocks:
        forward = block.forward
        block.forward = lambda *args, forward=forward, **kwargs: checkpoint(
            forward, *args, use_reentrant=False, **kwargs
        )
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def _with_times_of_sizes(profile: Profile) -> Profile:
    """The profile with times that a busy machine does not change."""
    stages = tuple(
        dataclasses.replace(stage, forward_seconds=stage.saved_bytes / 2**20, backward_seconds=1.0)
        for stage in profile.chain.stages
    )
    return dataclasses.replace(profile, chain=dataclasses.replace(profile.chain, stages=stages))


def _peak(example: Example) -> int:
    work = Workload(example.forward, loss_of, DEVICE)
    with unchanged(example.model, work):
        metered_step(work)  # which makes what stays
        return metered_step(work)[1]


@pytest.mark.parametrize("make", [_gpt2, _llama])
def test_takes_no_more_forwards_than_checkpoint_in_its_memory(make: Any) -> None:
    torch.manual_seed(0)
    example = make()
    example.model.train()
    with _every_block_checkpointed(example.model):
        memory = _peak(example)
    ready = profiled(example)
    profile = _with_times_of_sizes(ready.profile)
    asked = []

    def ask(chain: stowage.Chain, memory: int) -> Planned:
        asked.append(memory)
        answer = stowage.solve(chain, stowage.Platform(), memory=memory, solver="rotor")
        return Planned(answer=answer, source="local solve")

    inside = memory - profile.outside_bytes
    found = best_plan(profile, stowage.Platform(), inside, ask)
    assert isinstance(found, Planned)
    schedule = found.answer.schedule
    assert schedule is not None
    assert len(asked) <= 6, asked
    forwards = Counter(
        operation.stage for operation in schedule.operations if "FORWARD" in operation.kind.name
    )
    of_blocks = [
        forwards[number]
        for number, stage in enumerate(ready.stages, 1)
        if stage.modules[0] in _blocks_of(example.model)
    ]
    assert len(of_blocks) == _LAYERS
    assert sum(of_blocks) <= 2 * _LAYERS, of_blocks
    predicted = profile.memory.peak(profile.chain, stowage.Platform(memory_bytes=2**40), schedule)
    assert predicted <= inside
    with ready.under(schedule):
        measured = _peak(example)
    assert measured <= memory
    assert measured == pytest.approx(predicted + profile.outside_bytes, rel=0.03)


class _Hides(nn.Module):
    """Catches what ends a replay."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, value: Tensor) -> Tensor:
        try:
            return self.inner(value)
        except BaseException:
            return self.inner(value)


class _Ends(nn.Module):
    """Saves what it returns, or not."""

    def __init__(self, saves: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.saves = saves

    def forward(self, value: Tensor) -> Tensor:
        value = self.linear(torch.tanh(value))
        return value.sigmoid() if self.saves else value + 1


def _profile_of(layer: Any) -> Profiled:
    torch.manual_seed(0)
    model = nn.Sequential(*(layer() for _ in range(3)))
    return profiled(Example(model, torch.randn(128, 64, generator=generator(5))))


@pytest.mark.parametrize(
    ("layer", "unread"),
    [
        (lambda: _Ends(saves=False), 128 * 64 * 4),
        (lambda: _Ends(saves=True), 0),
        (lambda: _Hides(_Ends(saves=False)), 0),
    ],
)
def test_bytes_that_only_an_output_takes_are_measured(layer: Any, unread: int) -> None:
    ready = _profile_of(layer)
    # The caller may hold what the last layer has returned.
    assert [stage.unread for stage in ready.profile.memory.of_stages] == [unread, unread, 0]
    assert ready.profile.notes == ()


class _Ticks(nn.Module):
    """Takes a time of its own before and after the last tensor that it saves."""

    def __init__(self, time: list[int], before: int, after: int) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self._tick = lambda is_last: time.append(after if is_last else before)

    def forward(self, value: Tensor) -> Tensor:
        self._tick(False)
        value = torch.tanh(self.linear(value))
        self._tick(True)
        return value + 1


@pytest.mark.parametrize(
    ("before", "after", "share"), [(3, 5, 3 / 8), (3, 1, 3 / 4), (99, 1, None), (3, 0, None)]
)
def test_the_time_of_a_replay_ends_with_the_last_saved_tensor(
    before: int, after: int, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    time: list[int] = []
    clock = SimpleNamespace(
        now=lambda: sum(time), idle=lambda: sum(time), seconds=lambda begin, end: end - begin
    )
    monkeypatch.setattr(Workload, "clock", lambda work: clock)
    for stage in _profile_of(lambda: _Ticks(time, before, after)).profile.chain.stages:
        if share is None:
            assert stage.replay_seconds is None
        else:
            assert stage.replay_seconds == pytest.approx(share * stage.forward_seconds)
    for stage in _profile_of(lambda: _Hides(_Ticks(time, before, after))).profile.chain.stages:
        assert stage.replay_seconds is None


@pytest.mark.parametrize("seed", range(8))
def test_what_ends_early_is_a_replay_to_the_simulator(seed: int) -> None:
    ready = profiled(models.make("blocks"))
    chain = dataclasses.replace(
        ready.profile.chain,
        stages=tuple(
            dataclasses.replace(
                stage, forward_seconds=4.0, replay_seconds=None if stage.no_recompute else 1.0
            )
            for stage in ready.profile.chain.stages
        ),
    )
    least, most = stowage.memory_range(chain)
    answer = stowage.solve(
        chain, stowage.Platform(), memory=least + (most - least) * (1 + seed) // 10, solver="rotor"
    )
    if answer.schedule is None:
        pytest.skip("nothing fits")
    length = len(chain.stages)
    schedule = random_transfers(answer.schedule, length, seed) if seed % 2 else answer.schedule
    platform = stowage.Platform(memory_bytes=2**40, offload_bytes_per_second=1e9)
    timeline = simulate(chain, platform, schedule).timeline
    program = Program.of(schedule, length)
    found = dict(zip(program.source, program.ends_early, strict=True))
    for index, (operation, entry) in enumerate(zip(schedule.operations, timeline, strict=True)):
        if "FORWARD" in operation.kind.name and operation.stage <= length:
            replays = entry.end_seconds - entry.start_seconds == pytest.approx(1.0)
            assert found[index] == replays, (index, operation)
    assert any(program.ends_early)

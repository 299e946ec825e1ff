"""Layers that keep a part of what they save, and rerun the rest within their backward."""

from __future__ import annotations

import functools
import gc
import pathlib
import random
import weakref
from typing import Any

import models
import pytest
import schedules
import torch
from device import DEVICE, generator
from models import Example, differences, loss_of, train
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import stowage
from stowage.torch.execution.alone import CallAlone
from stowage.torch.execution.executor import Pass
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Workload, metered_step
from stowage.torch.policies import POLICIES

KIND = stowage.OperationKind


both = pytest.mark.parametrize("alone", [False, True], ids=["stowage", "torch"])


@functools.cache
def _profiled(name: str) -> schedules.Profiled:
    return schedules.profiled(models.make(name), selective=True)


def _restart(profiled: schedules.Profiled, name: str) -> None:
    profiled.example.model.load_state_dict(models.make(name).model.state_dict())
    profiled.example.model.zero_grad()


@pytest.mark.parametrize("bfloat16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["blocks", *models.MODELS])
@both
def test_random_ways_train_as_plain_training_does(name: str, bfloat16: bool, alone: bool) -> None:
    expected = train(models.make(name), bfloat16=bfloat16)
    profiled = _profiled(name)
    of_profile = [stage.ways for stage in profiled.stages]
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=bfloat16):
        recordings = schedules.recorded(profiled.example, profiled.stages, profiled.slots)
    chance = random.Random(name)
    try:
        for stage, recording in zip(profiled.stages, recordings, strict=True):
            stage.ways = (schedules.random_way(recording, chance),)
        _restart(profiled, name)
        with profiled.under(schedules.in_turn([1] * len(profiled.stages)), alone=alone):
            found = train(profiled.example, bfloat16=bfloat16)
    finally:
        for stage, ways in zip(profiled.stages, of_profile, strict=True):
            stage.ways = ways
    assert differences(expected, found) == []


@pytest.mark.parametrize("name", ["gpt2", "llama", "vit", "resnet50"])
@both
def test_ways_take_what_was_measured(name: str, alone: bool) -> None:
    profiled = _profiled(name)
    chain = profiled.profile.chain
    most = max(len(stage.save_options) for stage in chain.stages)
    assert most > 0
    platform = stowage.Platform(memory_bytes=2**40)
    work = Workload(profiled.example.forward, loss_of, DEVICE)
    for option in range(1, most + 1):
        options = [min(option, len(stage.save_options)) for stage in chain.stages]
        schedule = schedules.in_turn(options)
        inside = profiled.profile.memory.peak(chain, platform, schedule)
        expected = max(inside, profiled.profile.outside_peak_bytes)
        with (
            unchanged(profiled.example.model, work),
            profiled.under(schedule, alone=alone),
        ):
            metered_step(work)  # which makes what stays
            peak = metered_step(work)[1]
        assert peak == pytest.approx(expected + profiled.profile.outside_bytes, rel=0.03), option


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_equal_layers_have_equal_ways(name: str) -> None:
    profiled = _profiled(name)
    stages = profiled.profile.chain.stages
    layers = [
        (stage.ways, [(o.name, o.saved_bytes) for o in figures.save_options])
        for stage, figures in zip(profiled.stages, stages, strict=True)
        if figures.saved_bytes == stages[1].saved_bytes
    ]
    assert len(layers) > 1
    assert all(layer == layers[0] for layer in layers)
    ways, options = layers[0]
    assert [way.name for way in ways] == [option[0] for option in options]
    sizes = [stages[1].saved_bytes, *(option[1] for option in options), stages[1].output_bytes]
    assert sizes == sorted(sizes, reverse=True)
    seconds = [stages[1].backward_seconds] + [o.backward_seconds for o in stages[1].save_options]
    assert seconds == sorted(seconds)


class _Layer(nn.Module):
    """Multiplies twice; the second product is dear. Writes in place where it can."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.one = nn.Linear(width, width)
        self.two = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = 1.0

    def forward(self, value: Tensor) -> Tensor:
        found = nn.functional.relu(self.norm(self.one(value)), inplace=True)
        found = nn.functional.dropout(found, 0.3, self.training)
        return value + torch.sigmoid_(self.two(found)) * self.scale


def _small() -> Example:
    torch.manual_seed(0)
    return Example(
        nn.Sequential(*(_Layer() for _ in range(4))), torch.randn(16, 32, generator=generator(5))
    )


def _keeping(example: Example, *names: str) -> schedules.Profiled:
    """Its layers have one way, which keeps the results of all operators of these names."""
    profiled = schedules.profiled(example)
    recordings = schedules.recorded(example, profiled.stages, profiled.slots)
    for stage, recording in zip(profiled.stages, recordings, strict=True):
        numbers = [
            number
            for number, operator in enumerate(recording.operators)
            if operator.can_keep and operator.cost()["name"] in names
        ]
        assert numbers
        stage.ways = (recording.way("kept", numbers),)
    return profiled


@pytest.mark.parametrize(
    "names", [("addmm",), ("native_batch_norm", "addmm"), ("bernoulli",), ("native_batch_norm",)]
)
@both
def test_what_is_kept_is_not_run_again(names: tuple[str, ...], alone: bool) -> None:
    if DEVICE.type != "cpu":
        pytest.skip("names of a CPU's operators")
    expected = train(_small())
    profiled = _keeping(_small(), *names)
    calls: list[str] = []

    class Counts(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(str(func).split(".")[1].rstrip("_"))
            return func(*args, **(kwargs or {}))

    with profiled.under(schedules.in_turn([1] * 4), alone=alone):
        loss = loss_of(profiled.example.forward())
        with Counts():
            loss.backward()
        profiled.example.model.zero_grad()
        profiled.example.model.load_state_dict(_small().model.state_dict())
        found = train(profiled.example)
    assert differences(expected, found) == []
    for name in names:
        assert name not in calls, calls
    others = {"addmm", "native_batch_norm", "bernoulli", "relu"} - set(names)
    # What writes in place into a kept result is a part of it.
    if "native_batch_norm" in names:
        others.discard("relu")
    for name in others:
        assert name in calls, calls


@both
def test_a_rerun_finds_numbers_as_the_forward_did(alone: bool) -> None:
    expected = train(_small(), steps=1, micro_batches=1)
    profiled = _keeping(_small(), "addmm")
    layers = profiled.example.model

    def forward() -> Any:
        output = profiled.example.forward()
        layers[1].scale = 2.0
        return output

    with profiled.under(schedules.in_turn([1] * 4), alone=alone):
        found = train(profiled.example, steps=1, micro_batches=1, forward=forward)
    assert differences(expected, found) == []


class _Attends(nn.Module):
    """Its attention could draw random numbers, and draws none."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 96)
        self.outer = nn.Linear(32, 32)

    def forward(self, value: Tensor) -> Tensor:
        parts = self.inner(value).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return value + torch.tanh(self.outer(found.transpose(1, 2).flatten(2)))


@both
def test_a_rerun_leaves_random_numbers_alone(alone: bool) -> None:
    def example() -> Example:
        torch.manual_seed(0)
        model = nn.Sequential(*(_Attends() for _ in range(3)))
        return Example(model, torch.randn(2, 8, 32, generator=generator(5)))

    def drawing(example: Example) -> Any:
        output = example.forward()
        torch.rand(1, device=DEVICE)  # between forward and backward
        return output

    plain = example()
    expected = train(plain, forward=lambda: drawing(plain))
    profiled = schedules.profiled(example())
    recordings = schedules.recorded(profiled.example, profiled.stages, profiled.slots)
    for stage, recording in zip(profiled.stages, recordings, strict=True):
        attention = [
            number
            for number, operator in enumerate(recording.operators)
            if "scaled_dot_product" in operator.cost()["name"]
        ]
        stage.ways = (recording.way("attention", attention),)
    with profiled.under(schedules.in_turn([1] * 3), alone=alone):
        found = train(profiled.example, forward=lambda: drawing(profiled.example))
    assert differences(expected, found) == []


def test_a_layer_that_runs_under_no_mode_has_no_ways() -> None:
    class Refuses(_Layer):
        def forward(self, value: Tensor) -> Tensor:
            mode = torch.utils._python_dispatch._get_current_dispatch_mode()
            if mode is not None and not mode.supports_higher_order_operators:
                raise NotImplementedError("as flex_attention does")
            return super().forward(value)

    torch.manual_seed(0)
    model = nn.Sequential(Refuses(), _Layer(), _Layer())
    profiled = schedules.profiled(Example(model, torch.randn(64, 32)), selective=True)
    assert profiled.stages[0].ways == ()


@both
def test_other_operators_than_in_the_forward_are_an_error(alone: bool) -> None:
    switches = {"more": False}

    class Switches(_Layer):
        def forward(self, value: Tensor) -> Tensor:
            # Nothing is saved of the first, so that only the operators tell.
            return super().forward(value + 0 if switches["more"] else value)

    torch.manual_seed(0)
    model = nn.Sequential(*(Switches() for _ in range(3)))
    profiled = _keeping(Example(model, torch.randn(8, 32)), "addmm")
    with profiled.under(schedules.in_turn([1] * 3), alone=alone):
        loss = loss_of(profiled.example.forward())
        switches["more"] = True
        with pytest.raises(RuntimeError, match="2 does not run as it did in the forward"):
            loss.backward()


@both
def test_a_kept_result_that_is_changed_in_place_is_an_error(alone: bool) -> None:
    class Leaks(_Layer):
        def forward(self, value: Tensor) -> Tensor:
            self.product = self.one(value)
            return torch.tanh(self.norm(self.product))

    torch.manual_seed(0)
    model = nn.Sequential(*(Leaks() for _ in range(3)))
    profiled = _keeping(Example(model, torch.randn(8, 32)), "addmm")
    with profiled.under(schedules.in_turn([1] * 3), alone=alone):
        loss = loss_of(profiled.example.forward())
        with torch.no_grad():
            model[1].product.mul_(2)
        with pytest.raises(RuntimeError, match="changed in place"):
            loss.backward()


class _Chooses(nn.Module):
    """Writes in place into one of two tensors: by the same operators, in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, value: Tensor) -> Tensor:
        one, two = self.one(value), self.two(value)
        (one if _Chooses.chosen else two).mul_(2)
        return value + torch.tanh(one) * torch.tanh(two)

    chosen = True


@both
@pytest.mark.parametrize("names", [("addmm",), ("addmm", "tanh")])
def test_an_operator_that_writes_elsewhere_than_when_it_was_recorded(
    names: tuple[str, ...], alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    plain = Example(nn.Sequential(*(_Chooses() for _ in range(3))), torch.randn(16, 32))
    profiled = _keeping(plain.fresh(), *names)
    for chosen in (True, False):
        monkeypatch.setattr(_Chooses, "chosen", chosen)
        with profiled.under(schedules.in_turn([1] * 3), alone=alone):
            found = train(profiled.example, steps=1)
        assert differences(train(plain, steps=1), found) == []


@both
def test_nothing_is_left_of_a_step(alone: bool) -> None:
    profiled = _keeping(_small(), "addmm")
    before = {id(run) for run in _passes()}  # of tests that have failed
    gc.disable()
    try:
        with profiled.under(schedules.in_turn([1] * 4), alone=alone):
            loss = loss_of(profiled.example.forward())
            runs = [weakref.ref(run) for run in _passes() if id(run) not in before]
            assert len(runs) == (4 if alone else 1)
            loss.backward()
            del loss
            assert not any(run() for run in runs)
            loss_of(profiled.example.forward())  # without a backward
            assert {id(run) for run in _passes()} <= before
    finally:
        gc.enable()


def _passes() -> list[Any]:
    return [thing for thing in gc.get_objects() if type(thing) in (Pass, CallAlone)]


def test_fit_keeps_a_part_where_that_is_faster() -> None:
    """Attention and products of layers wide enough that an interception costs little."""
    torch.manual_seed(0)
    layers = nn.ModuleList(
        nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True) for _ in range(4)
    )
    model = nn.Sequential(*layers)
    sample = torch.randn(8, 128, 128, generator=generator(6))
    for _ in range(3):  # times, which other work on the machine may disturb, decide
        fitted = stowage.fit(model, sample, activations="50%", verbose=False)
        assert all(stage.save_options for stage in fitted.profile.chain.stages)
        assert fitted.measured_peak_bytes is not None
        assert fitted.measured_peak_bytes <= 1.03 * fitted.activations
        assert fitted.answer is not None
        assert fitted.answer.schedule is not None
        if any(operation.save_option for operation in fitted.answer.schedule.operations):
            break
    else:
        pytest.fail("no layer was saved in part")
    assert any(layer.kept == "part" and layer.way for layer in stowage.report(model).layers)
    without = stowage.fit(model, sample, activations="50%", selective=False, verbose=False)
    assert not any(stage.save_options for stage in without.profile.chain.stages)


def test_fit_is_limited_to_policies_that_people_paste(tmp_path: pathlib.Path) -> None:
    """Each keeps the results that PyTorch's own checkpointing keeps with that policy."""
    example = models.make("llama")
    model, layers = example.model, list(example.model.model.layers)
    for layer in layers:
        layer.self_attn.attention_dropout = 0.0  # so that attention is an operator
    names = list(POLICIES)
    choices: dict[str, Any] = {"plan_cache": str(tmp_path), "loss": loss_of, "verbose": False}
    for source in ("local solve", "plan file"):  # the second from the saved profile
        fitted = stowage.fit(model, example.sample, activations="40%", selective=names, **choices)
        assert fitted.source == source
    chain = stowage.report(model).chain
    assert chain is not None
    of_layers = [stage.save_options for stage in chain.stages if "layers" in stage.name]
    assert len(of_layers) == len(layers)
    for options in of_layers:
        ways = {option.name: set(option.kept) for option in options}
        assert list(ways) == sorted(ways, key=lambda name: -len(ways[name]))
        for name, kept in ways.items():
            assert kept == _kept_by_torch(model, layers[0], example, name), name
    assert {"products and attention", "attention"} <= {option.name for option in of_layers[0]}


def _kept_by_torch(model: nn.Module, layer: nn.Module, example: Example, policy: str) -> set[str]:
    """Calls of operators of the layer, as chains name them."""
    kept: set[str] = set()
    called: list[str] = []
    counts: dict[str, int] = {}

    def choose(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if not context.is_recompute:
            called.append(str(operator).split(".")[1])
            number = counts.setdefault(str(operator), 0)
            counts[str(operator)] += 1
            if POLICIES[policy](called):
                kept.add(f"{operator}#{number}")
                return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    forward = layer.forward
    stowage.unfit(model)
    layer.forward = lambda *args, **kwargs: checkpoint(
        forward,
        *args,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(choose),
        **kwargs,
    )
    try:
        with unchanged(model):
            model(**example.sample)
    finally:
        del layer.forward
    return kept


def test_a_policy_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    example = models.make("blocks")
    with pytest.raises(ValueError, match=r"selective: is 'products'.*'products and attention'"):
        stowage.fit(example.model, example.sample, activations="50%", selective=["products"])

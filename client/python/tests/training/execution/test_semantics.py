"""Autograd's semantics around a schedule: hooks, routes through the model, what leaves a layer."""

from __future__ import annotations

import collections
import gc
import re
from dataclasses import replace
from typing import Any

import models
import numpy as np
import pytest
import torch
from device import DEVICE
from models import Example, differences, loss_of, train
from torch import Tensor, nn

import stowage
from stowage.torch import NotAChainError, placing
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.executor import Pass
from stowage.torch.execution.program import Program
from stowage.torch.layers.stage import Stage
from stowage.torch.measuring.comparison import StepSums, first_difference
from stowage.torch.tensors.transfers import transfers_for

both = pytest.mark.parametrize("run", ["stowage", "torch"])


def _fit(example: Example, run: str = "auto", **more: Any) -> stowage.torch.Fitted:
    if run == "torch":
        more = {key: value for key, value in more.items() if key not in ("solver", "offload")}
    return stowage.fit(
        example.model,
        example.sample,
        **{"activations": "25%", "loss": loss_of, "verbose": False, "run": run, **more},
    )


def _pair(model: nn.Module, sample: Tensor) -> tuple[Example, Example]:
    one = Example(model, sample)
    return one, one.fresh()


def _gradients_after(example: Example, loss: Any) -> list[Tensor | None]:
    torch.manual_seed(3)
    example.model.zero_grad()
    loss(example).backward()
    return [parameter.grad for parameter in example.model.parameters()]


def _same(one: list[Tensor | None], other: list[Tensor | None]) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


@both
def test_hooks_of_parameters_are_called_once(run: str) -> None:
    plain, example = models.make("blocks"), models.make("blocks")
    _fit(example, run=run)
    calls = 0

    def halve(gradient: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return gradient * 0.5

    for one in (plain, example):
        for parameter in one.model.parameters():
            parameter.register_hook(halve)
    expected = train(plain)
    of_plain, calls = calls, 0
    assert differences(expected, train(example)) == []
    assert calls == of_plain


class GetsItThrice(nn.Module):
    """Calls layers with one tensor as query, key and value."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(16, 4) for _ in range(5))

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value, value, value, need_weights=False)[0]
        return value


@both
def test_a_layer_that_gets_one_tensor_three_times(run: str) -> None:
    torch.manual_seed(0)
    plain, example = _pair(GetsItThrice(), torch.randn(6, 4, 16))
    _fit(example, run=run)
    assert differences(train(plain), train(example)) == []


class Scaled(nn.Module):
    """Reads what the model's code has put on the argument."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = models.Block(16)

    def forward(self, value: Tensor) -> Tensor:
        return self.inner(value) * getattr(value, "scale", 1.0)


class Scales(nn.Module):
    """Puts something on the arguments of layers once `scales` is set, which is after `fit`."""

    scales = False

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Scaled() for _ in range(5))

    def forward(self, value: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            if self.scales:
                value.scale = number + 0.5  # type: ignore[attr-defined]
            value = layer(value)
        return value


@both
@pytest.mark.parametrize("scales_when_fitted", [False, True])
def test_what_code_puts_on_an_argument_is_there_in_a_replay(
    run: str, scales_when_fitted: bool
) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Scales(), torch.randn(6, 16))
    example.model.scales = scales_when_fitted
    _fit(example, run=run)
    plain.model.scales = example.model.scales = True
    assert differences(train(plain), train(example)) == []


class HooksArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.Block(16)

    def forward(self, value: Tensor) -> Tensor:
        if value.requires_grad:
            value.register_hook(lambda gradient: gradient * 2)
        return self.inner(value)


@both
def test_a_hook_on_an_argument_runs_once(run: str) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(HooksArgument(), *(models.Block(16) for _ in range(4)))
    plain, example = _pair(layers, torch.randn(6, 16, requires_grad=True))
    _fit(example, run=run)
    gradients = []
    for one in (plain, example):
        sample = one.sample.detach().clone().requires_grad_()
        torch.manual_seed(1)
        loss_of(one.model(sample)).backward()
        gradients.append(sample.grad)
    assert torch.equal(*gradients)


class Routes(nn.Module):
    """Layers that may be left early."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(7))
        self.last = 7

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers[: self.last]:
            value = layer(value)
        return value


@pytest.mark.parametrize("last", [1, 3, 6])
@both
def test_a_model_that_leaves_its_layers_early(run: str, last: int) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Routes(), torch.randn(8, 16))
    _fit(example, run=run)
    plain.model.last = example.model.last = last

    def loss(one: Example) -> Tensor:
        return loss_of(one.forward())

    assert _same(_gradients_after(plain, loss), _gradients_after(example, loss))
    plain.model.last = example.model.last = 7
    assert _same(_gradients_after(plain, loss), _gradients_after(example, loss))


@pytest.mark.parametrize("middle", [0, 2, 5])
@both
def test_a_loss_of_a_middle_layer_alone(run: str, middle: int) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Routes(), torch.randn(8, 16))
    _fit(example, run=run)

    def loss(one: Example) -> Tensor:
        seen: list[Tensor] = []
        handle = one.model.layers[middle].register_forward_hook(
            lambda module, args, output: seen.append(output)
        )
        one.forward()
        handle.remove()
        return loss_of(seen[0])

    assert _same(_gradients_after(plain, loss), _gradients_after(example, loss))


class Collects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor, losses: list[Tensor]) -> Tensor:
        losses.append(value.square().mean())
        return self.linear(value)


class Auxiliary(nn.Module):
    """Its layers append to a list, on which its loss depends."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Collects() for _ in range(5))

    def forward(self, value: Tensor) -> Tensor:
        losses: list[Tensor] = []
        for layer in self.layers:
            value = layer(value, losses)
        return value * sum(losses)


@both
def test_what_leaves_a_layer_by_a_list_is_refused(run: str) -> None:
    model = Auxiliary()
    with pytest.raises(
        NotAChainError, match=r"gets other tensors|under the schedule|changes its arguments"
    ):
        _fit(Example(model, torch.randn(8, 16)), layers=model.layers, run=run)
    assert not any("forward" in module.__dict__ for module in model.modules())


class Adds(nn.Module):
    """Adds little to the loss, by a list that is its argument, or an object's for one layer."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))

        def forward(self, value: Tensor, added: list[Tensor] | None = None) -> Tensor:
            found = self.inner(value)
            if added is not None:
                added.append(found.square().mean() * 1e-3)
            return value + found

    def __init__(self, in_object: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Adds.Layer() for _ in range(6))
        self.added = Adds.Box()
        self.in_object = in_object
        if in_object:
            first, box = self.layers[0], self.added
            first.forward = lambda value: box.note(Adds.Layer.forward(first, value))

    class Box:
        def __init__(self) -> None:
            self.entries: list[Tensor] = []

        def note(self, value: Tensor) -> Tensor:
            self.entries.append(value.square().mean() * 1e-3)
            return value

    def forward(self, value: Tensor) -> Tensor:
        added: list[Tensor] = self.added.entries if self.in_object else []
        for layer in self.layers:
            value = layer(value) if self.in_object else layer(value, added)
        total = torch.stack(added).sum()
        self.added.entries.clear()
        return value.square().mean() + total


@both
@pytest.mark.parametrize("in_object", [False, True], ids=["list", "object"])
def test_small_losses_that_leave_a_layer_count_or_are_refused(run: str, in_object: bool) -> None:
    """Too small for `fit`'s comparison to find them."""
    torch.manual_seed(0)
    model, sample = Adds(in_object), torch.randn(32, 16)
    torch.manual_seed(0)
    plain = Example(Adds(in_object), sample)
    example = Example(model, sample)
    try:
        _fit(example, run=run, loss=lambda output: output, layers=model.layers)
    except (NotAChainError, RuntimeError) as raised:
        error = str(raised)
    else:
        error = ""
    if error:
        assert re.search(r"layers\.\d|gets other tensors|under the schedule", error), error
        return
    for _ in range(2):
        expected = _gradients_after(plain, lambda one: one.forward())
        assert _same(expected, _gradients_after(example, lambda one: one.forward()))


def _fast_link(platform: stowage.Platform, device: torch.device) -> stowage.Platform:
    return replace(platform, offload_bytes_per_second=1e12)


class Penalized(nn.Module):
    """Its layers keep a small penalty in an attribute, or return one in an object."""

    class Penalty:
        def __init__(self, value: Tensor) -> None:
            self.value = value

    class Layer(nn.Module):
        def __init__(self, returns: bool) -> None:
            super().__init__()
            self.returns = returns
            self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
            self.head = nn.Linear(16, 1)

        def forward(self, value: Tensor) -> Any:
            gate = self.head(value)
            penalty = Penalized.Penalty(gate.mean() * 0.01)
            if self.returns:
                return value + self.inner(value) * gate, penalty
            self.penalty = penalty
            return value + self.inner(value)

    def __init__(self, returns: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Penalized.Layer(returns) for _ in range(8))

    def forward(self, value: Tensor) -> Tensor:
        total = torch.zeros(())
        for layer in self.layers:
            value = layer(value)
            if layer.returns:
                value, penalty = value
                total = total + penalty.value
            else:
                total = total + layer.penalty.value
        return value.sum() + total


@pytest.mark.parametrize("activations", ["40%", "5%"])
@pytest.mark.parametrize("offload", [False, True], ids=["", "offload"])
@pytest.mark.parametrize("returns", [False, True], ids=["attribute", "object"])
@both
def test_a_small_loss_that_leaves_a_layer_beside_its_value_gets_its_gradient(
    run: str, monkeypatch: pytest.MonkeyPatch, returns: bool, offload: bool, activations: str
) -> None:
    if DEVICE.type == "cpu":  # which has no link that could be measured
        monkeypatch.setattr(placing, "measure_link", _fast_link)
    torch.manual_seed(0)
    plain, example = _pair(Penalized(returns), torch.randn(64, 16))
    fitted = _fit(
        example, loss=lambda output: output, activations=activations, offload=offload, run=run
    )
    assert fitted.answer is not None
    expected = _gradients_after(plain, lambda one: one.forward())
    assert _same(expected, _gradients_after(example, lambda one: one.forward()))


@both
def test_a_cache_for_generation_is_refused_with_the_remedy(run: str) -> None:
    example = models.make("llama")
    asks = models.Example(example.model, {**example.sample, "use_cache": True})
    with pytest.raises(NotAChainError, match="leave use_cache=True out"):
        _fit(asks, layers=example.model.model.layers, run=run)


@both
def test_a_cache_that_the_sample_did_not_have_is_refused_in_the_step(run: str) -> None:
    example = models.make("llama")
    _fit(example, layers=example.model.model.layers, run=run)
    loss_of(example.forward()).backward()
    with pytest.raises(NotAChainError, match=r"layers\.\d gets a cache.*leave use_cache=True out"):
        example.model(**example.sample, use_cache=True)
    loss_of(example.forward()).backward()


class Biased(nn.Module):
    """Layers that share a learned side input."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Linear(16, 16)
        self.layers = nn.ModuleList(nn.Bilinear(16, 16, 16) for _ in range(5))
        self.fails_at = -1

    def forward(self, value: Tensor) -> Tensor:
        bias = self.bias(value)
        for index, layer in enumerate(self.layers):
            if index == self.fails_at:
                raise RuntimeError("on purpose")
            value = layer(value, bias)
        return value


@both
def test_a_shared_side_input_gets_its_gradient(run: str) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Biased(), torch.randn(8, 16))
    _fit(example, layers=example.model.layers, activations="70%", run=run)
    assert differences(train(plain, steps=1), train(example, steps=1)) == []


@both
def test_a_pass_that_ended_early_is_freed(run: str) -> None:
    example = Example(Biased(), torch.randn(8, 16))
    _fit(example, layers=example.model.layers, activations="70%", run=run)
    others = [thing for thing in gc.get_objects() if type(thing) is Pass]
    example.model.fails_at = 3
    for _ in range(5):
        with pytest.raises(RuntimeError, match="on purpose"):
            example.forward()
    example.model.fails_at = -1
    loss_of(example.forward()).backward()
    gc.collect()
    passes = [thing for thing in gc.get_objects() if type(thing) is Pass]
    assert all(any(one is other for other in others) for one in passes)


@both
def test_a_part_of_a_fitted_model_is_fitted_anew(run: str) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(*(models.Block(16) for _ in range(6)))
    example = Example(nn.Sequential(inner, nn.Linear(16, 16)), torch.randn(8, 16))
    plain = example.fresh()
    _fit(Example(inner, example.sample), run=run)
    _fit(example, run=run)
    assert differences(train(plain), train(example)) == []
    stowage.unfit(example.model)
    assert not any("forward" in module.__dict__ for module in example.model.modules())


class Replaces(nn.Module):
    """Has another buffer object after each run."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, value: Tensor) -> Tensor:
        self.count = self.count + 1
        return self.linear(value)


@both
def test_a_buffer_that_is_replaced(run: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(Replaces(), nn.GELU()) for _ in range(5)))
    plain, example = _pair(model, torch.randn(8, 16))
    _fit(example, layers=list(example.model), run=run)
    assert float(example.model[0][0].count) == 0
    assert differences(train(plain), train(example)) == []


@both
def test_an_optimizer_in_hooks_does_not_step_while_fitting(run: str) -> None:
    example = models.make("blocks")
    before = [parameter.detach().clone() for parameter in example.model.parameters()]
    for parameter in example.model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: p.data.sub_(p.grad))
    _fit(example, run=run)
    now = example.model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))


@both
def test_training_modes_may_change_between_steps(run: str) -> None:
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True) for _ in range(5)]
    plain, example = _pair(nn.Sequential(*layers), torch.randn(2, 6, 16))
    _fit(example, run=run)
    for mode in (False, True):
        plain.model.train(mode)
        example.model.train(mode)
        assert differences(train(plain, steps=1), train(example, steps=1)) == []


class Deep(nn.Module):
    """Its loss depends on every layer's output, which makes gradients equal up to rounding only."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True) for _ in range(5)
        )

    def forward(self, value: Tensor) -> Tensor:
        total = torch.zeros(())
        for layer in self.layers:
            value = layer(value)
            total = total + value.square().mean()
        return value * total


@both
def test_a_loss_of_every_layer(run: str) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Deep(), torch.randn(2, 6, 16))
    fitted = _fit(example, layers=example.model.layers, run=run)
    assert fitted.answer is not None
    expected = _gradients_after(plain, lambda one: loss_of(one.forward()))
    found = _gradients_after(example, lambda one: loss_of(one.forward()))
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_gradients_that_are_nothing_but_rounding_are_not_compared() -> None:
    plain = StepSums({"the loss": (2.0, 2.0), "key.bias": (1e-9, 2e-9), "weight": (0.5, 1.0)})
    other = StepSums({"the loss": (2.0, 2.0), "key.bias": (-3e-9, 5e-9), "weight": (0.5, 1.0)})
    rounding = {"key.bias": 4e-9}
    assert first_difference(plain, other, rounding) is None


@pytest.mark.parametrize("size", [0.5, 2.0])
def test_a_gradient_of_the_same_sum_but_another_size_is_named(size: float) -> None:
    plain = StepSums({"the loss": (2.0, 2.0), "weight": (0.0, 1.0)})
    other = StepSums({"the loss": (2.0, 2.0), "weight": (0.0, size)})
    assert first_difference(plain, other, {}) == "weight"


@pytest.mark.parametrize("lost", ["the loss", "weight", "bias"])
def test_what_is_lost_is_named(lost: str) -> None:
    plain = StepSums({"the loss": (2.0, 2.0), "weight": (0.5, 1.0), "bias": (1e-5, 2e-5)})
    other = StepSums({name: sums for name, sums in plain.items() if name != lost})
    assert first_difference(plain, other, {lost: 1.0}) == lost


def test_a_small_gradient_is_compared_with_itself() -> None:
    plain = StepSums({"the loss": (2.0, 2.0), "weight": (0.5, 1.0), "bias": (1e-5, 2e-5)})
    other = StepSums({**plain, "bias": (1e-5, 1.9e-5)})
    assert first_difference(plain, other, {"bias": 1e-8}) == "bias"
    assert first_difference(plain, other, {"bias": 1e-6}) is None


class Measures(nn.Module):
    """Returns a number before its value, which its model drops."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        found = self.inner(value)
        return found.mean(), found


class Measured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Measures() for _ in range(6))

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value)[1]
        return value


@both
def test_outputs_that_the_model_drops_before_the_next_layer(run: str) -> None:
    torch.manual_seed(0)
    plain, example = _pair(Measured(), torch.randn(32, 16))
    _fit(example, solver="rotor", run=run)
    assert differences(train(plain), train(example)) == []


class Reads(nn.Module):
    """Adds its argument, a frozen parameter and a buffer, of which no backward saves anything."""

    mark: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        self.shift = nn.Parameter(torch.ones(16), requires_grad=False)
        self.register_buffer("mark", torch.ones(16))

    def forward(self, value: Tensor, side: Tensor) -> Tensor:
        return self.inner(value + side + self.shift + self.mark)


class AllRead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Reads() for _ in range(8))

    def forward(self, value: Tensor, side: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value, side)
        return value


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("side", r"an argument of layers\.\d was changed in place"),
        ("shift", r"parameter shift of layers\.\d was changed in place"),
        ("mark", r"buffer 'mark' of layers\.\d was changed in place, or replaced"),
        ("new mark", r"buffer 'mark' of layers\.\d was changed in place, or replaced"),
    ],
)
@both
def test_what_recomputations_read_may_not_change_before_them(
    run: str, what: str, says: str
) -> None:
    torch.manual_seed(0)
    model, value, side = AllRead(), torch.randn(32, 16), torch.randn(32, 16)
    _fit(Example(model, (value, side)), activations="5%", solver="rotor", run=run)
    loss = loss_of(model(value, side))
    for layer in model.layers:
        if what == "new mark":
            layer.mark = torch.zeros(16)
        else:
            changed = side if what == "side" else getattr(layer, what)
            changed.detach().mul_(2)
    with pytest.raises(RuntimeError, match=says):
        loss.backward()
    loss_of(model(value, side)).backward()


class Tanh(nn.Module):
    """Saves its input, its weight and its output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        return self.linear(value).tanh()


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("what", ["input", "output", "weight"])
def test_what_values_on_the_host_have_saved_may_not_change(what: str, released: bool) -> None:
    torch.manual_seed(0)
    example = Example(nn.Sequential(*(Tanh() for _ in range(4))), torch.randn(8, 16))
    kind = stowage.OperationKind
    there = [kind.OFFLOAD, kind.RELEASE] if released else [kind.OFFLOAD]
    back = [kind.PREFETCH] if released else [kind.RELEASE, kind.PREFETCH]
    order = [
        *((kind.FORWARD_SAVE, stage) for stage in range(1, 5)),
        *((step, 2) for step in there),
        (kind.FORWARD_SAVE, 5),
        *((kind.BACKWARD, stage) for stage in (5, 4)),
        *((step, 2) for step in back),
        *((kind.BACKWARD, stage) for stage in (3, 2, 1)),
    ]
    operations = tuple(stowage.Operation(kind=step, stage=stage) for step, stage in order)
    stages = [Stage(str(number), [layer]) for number, layer in enumerate(example.model)]
    program = Program.of(stowage.Schedule(operations=operations), 4)
    coordinator = Coordinator(stages, program, transfers_for(DEVICE), (0,))
    coordinator.install()
    outputs: list[Tensor] = []
    for layer in example.model:
        layer.register_forward_hook(lambda module, args, output: outputs.append(output))
    loss_of(example.forward()).backward()
    outputs.clear()
    loss = loss_of(example.forward())
    changed = {"input": outputs[0], "output": outputs[1], "weight": example.model[1].linear.weight}
    with torch.no_grad():
        changed[what].mul_(2)
    with pytest.raises(RuntimeError, match="was changed in place"):
        loss.backward()
    coordinator.remove()


class Marks(nn.Module):
    """Also returns a mask as it got it, and a norm that needs no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.inner(value) + mask
        return found, mask, found.detach().norm()


class Marked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Marks() for _ in range(8))
        self.norms: list[Any] = []
        self.need_gradients: list[bool] = []

    def forward(self, value: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            value, mask, norm = layer(value, mask)
            self.norms.append(norm.cpu().numpy())
            self.need_gradients.append(mask.requires_grad)
        return value


@both
def test_outputs_need_a_gradient_where_they_do_in_plain_training(run: str) -> None:
    torch.manual_seed(0)
    model, value, mask = Marked(), torch.randn(32, 16), torch.zeros(32, 16)
    plain, example = _pair(model, (value, mask))
    _fit(example, activations="5%", solver="rotor", run=run)
    for needs in (False, True):  # the second is not what the sample was
        mask.requires_grad_(needs)
        found = []
        for one in (plain, example):
            one.model.need_gradients = []
            mask.grad = None
            found.append(_gradients_after(one, lambda one: loss_of(one.forward())))
            found[-1].append(mask.grad)
        assert _same(*found)
        assert example.model.need_gradients == plain.model.need_gradients == [needs] * 8


class Skips(nn.Module):
    """Does nothing in some runs: then its output needs no more than its input does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, value: Tensor) -> Tensor:
        return value if torch.rand(()) < 0.5 else value + self.inner(value)


@both
def test_layers_that_skip_their_work_in_the_first_step(run: str) -> None:
    torch.manual_seed(0)
    # The last layer never skips: otherwise there are steps whose loss needs no gradient.
    layers = [*(Skips() for _ in range(7)), nn.Linear(16, 16)]
    plain, example = _pair(nn.Sequential(*layers), torch.randn(32, 16))
    _fit(example, activations="20%", solver="rotor", layers=list(example.model), run=run)
    assert differences(train(plain, steps=5), train(example, steps=5)) == []


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        self.register_buffer("own", torch.eye(16).to_sparse())

    def forward(self, value: Tensor, edges: Tensor) -> Tensor:
        return self.inner(torch.sparse.mm(self.own, torch.sparse.mm(edges, value).T).T)


class OnGraphs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Graph() for _ in range(8))

    def forward(self, value: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value, edges)
        return value


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@both
def test_sparse_arguments_and_buffers(run: str, layout: torch.layout) -> None:
    torch.manual_seed(0)

    def sample(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, 16), torch.eye(size).to_sparse(layout=layout)

    plain, example = _pair(OnGraphs(), sample(64))
    _fit(example, activations="5%", solver="rotor", run=run)
    for size in (64, 48):
        arguments = sample(size)

        def loss(one: Example, arguments: Any = arguments) -> Tensor:
            return loss_of(one.model(*arguments))

        assert _same(_gradients_after(plain, loss), _gradients_after(example, loss))


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@both
def test_a_weight_that_a_hook_computes_is_refused_by_name(run: str, norm: Any) -> None:
    model = nn.Sequential(*(norm(nn.Linear(16, 16)) for _ in range(6)))
    with pytest.raises(
        NotAChainError, match=r"a hook of 0 computes its 'weight'.*parametrizations"
    ):
        _fit(Example(model, torch.randn(8, 16)), run=run)


class InDict(nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, entries: Any) -> Any:
        made = self.make()
        made[0] = self.inner(entries[0])
        return made


class InDicts(nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(InDict(make) for _ in range(8))

    def forward(self, value: Tensor) -> Tensor:
        entries: Any = {0: value}
        for layer in self.layers:
            entries = layer(entries)
            if isinstance(entries, collections.defaultdict):
                entries["log"].append(1)
        return entries[0]


@pytest.mark.parametrize("make", [lambda: collections.defaultdict(list), collections.OrderedDict])
@both
def test_dicts_are_handed_on_as_they_are(run: str, make: Any) -> None:
    torch.manual_seed(0)
    plain, example = _pair(InDicts(make), torch.randn(32, 16))
    _fit(example, activations="5%", solver="rotor", run=run)
    assert differences(train(plain), train(example)) == []


class _Complex(nn.Module):
    """Saves its input's conjugate, a view of it that no other input can stand for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))

    def forward(self, value: Tensor) -> Tensor:
        return torch.tanh(value.conj() * value) @ self.weight + value


@both
def test_complex_values(run: str) -> None:
    model = nn.Sequential(*(_Complex() for _ in range(6)))
    sample = torch.randn(16, 8, dtype=torch.complex64)
    plain, example = (
        Example(each.model.to(DEVICE), sample.to(DEVICE)) for each in _pair(model, sample)
    )

    def loss(of: Example) -> Tensor:
        return of.forward().abs().mean()

    _fit(example, run, activations="0%", loss=lambda output: output.abs().mean(), selective=False)
    assert _same(_gradients_after(plain, loss), _gradients_after(example, loss))


@both
def test_a_buffer_that_is_not_a_number(run: str) -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(8)]
    for layer in layers:
        layer.register_buffer("seen", torch.zeros(1))
    plain, example = _pair(nn.Sequential(*layers), torch.randn(32, 16))
    _fit(example, activations="5%", solver="rotor", layers=list(example.model), run=run)
    for one in (plain, example):
        train(one, steps=1)
        for layer in one.model:
            layer.seen.fill_(float("nan"))
    found = train(example)
    assert [name for name in differences(train(plain), found) if "seen" not in name] == []


class Drawn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(models.Block(16) for _ in range(6)))

    def forward(self, value: Tensor) -> Tensor:
        return self.layers(value * float(np.random.rand()))


@both
def test_numpys_numbers_are_put_back(run: str) -> None:
    np.random.seed(0)
    _fit(Example(Drawn(), torch.randn(8, 16)), run=run)
    drawn = np.random.rand()
    np.random.seed(0)
    assert drawn == np.random.rand()

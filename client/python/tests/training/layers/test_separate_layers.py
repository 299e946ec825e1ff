"""Layers that are replayed apart: which those are, and what a step may do with them."""

from __future__ import annotations

import copy
import io
import pathlib
from collections.abc import Callable
from typing import Any

import models
import pytest
import torch
from device import DEVICE, generator
from models import Example, differences, train
from torch import Tensor, nn

import stowage
from stowage.torch import Fitted, NotAChainError
from stowage.torch.layers.installation import LayerForward
from stowage.torch.measuring.workload import Workload, metered_step


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator(6))


def _fit(example: Example, activations: Any = "0%", **options: Any) -> Fitted:
    return stowage.fit(
        example.model, example.sample, activations=activations, verbose=False, **options
    )


def _names(fitted: Fitted) -> list[str]:
    return [stage.name for stage in fitted.coordinator.stages]


class Stage(nn.Module):
    """Blocks, and then half of the rows."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(models.Block(width) for _ in range(count))

    def forward(self, value: Tensor) -> Tensor:
        for block in self.blocks:
            value = block(value)
        return value[::2] * 0.5


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Stage(count, 16) for count in (3, 4, 2))

    def forward(self, value: Tensor) -> Tensor:
        for stage in self.stages:
            value = stage(value)
        return value


class Shared(nn.Module):
    """One layer, called as often as the input has rows by eight, with something between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = models.Block(16)
        self.layer = models.Block(16)

    def forward(self, value: Tensor, calls: int = 5) -> Tensor:
        value = self.first(value)
        for _ in range(calls):
            value = self.layer(value).sin()
        return value


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.ModuleList(models.Block(16) for _ in range(4))
        self.right = nn.ModuleList(models.Block(16) for _ in range(4))

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        for layer in self.left:
            one = layer(one)
        for layer in self.right:
            other = layer(other)
        return one @ other.T


class Skips(nn.Module):
    """A U-Net of two levels: what goes down is read again on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(models.Block(16) for _ in range(3))
        self.up = nn.ModuleList(models.Block(32) for _ in range(3))
        self.join = nn.ModuleList(nn.Linear(32, 16) for _ in range(3))

    def forward(self, value: Tensor) -> Tensor:
        seen = []
        for layer in self.down:
            value = layer(value)
            seen.append(value)
            value = value.tanh()
        for layer, join in zip(self.up, self.join, strict=True):
            value = join(layer(torch.cat([value, seen.pop()], dim=1)))
        return value


_MODELS: dict[str, tuple[Callable[[], Example], list[str]]] = {
    "stages": (
        lambda: Example(Stages(), _numbers(64, 16)),
        [
            *(f"stages.{stage}.blocks.{i}" for stage, count in enumerate((3, 4, 2))
              for i in range(count)),
        ],
    ),
    "shared": (
        lambda: Example(Shared(), _numbers(64, 16)),
        ["first", *(f"layer (call {call})" for call in range(1, 6))],
    ),
    "towers": (
        lambda: Example(Towers(), (_numbers(64, 16), _numbers(64, 16))),
        [f"{side}.{i}" for side in ("left", "right") for i in range(4)],
    ),
    "skips": (
        lambda: Example(Skips(), _numbers(64, 16)),
        [f"{way}.{i}" for way in ("down", "up") for i in range(3)],
    ),
}  # fmt: skip


def _make(name: str) -> Example:
    torch.manual_seed(0)
    example = _MODELS[name][0]()
    example.model.train()
    return example


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("bfloat16", [False, True], ids=["float32", "autocast"])
def test_layers_are_found_and_gradients_are_to_the_bit(name: str, bfloat16: bool) -> None:
    plain = train(_make(name), bfloat16=bfloat16)
    for budget in ("0%", "40%", "80%"):
        example = _make(name)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=bfloat16):
            fitted = _fit(example, budget)
        assert _names(fitted) == _MODELS[name][1]
        report = stowage.report(example.model)
        assert report.run == "torch"
        assert "no chain" in report.run_reason
        assert "no chain" in str(fitted)
        assert differences(plain, train(example, bfloat16=bfloat16)) == []


@pytest.mark.parametrize("name", _MODELS)
def test_unfit_and_copies_are_plain(name: str) -> None:
    plain, example = train(_make(name)), _make(name)
    _fit(example)
    file = io.BytesIO()
    torch.save(example.model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for model in (copy.deepcopy(example.model), loaded):
        assert not any(
            isinstance(vars(module).get("forward"), LayerForward) for module in model.modules()
        )
        assert differences(plain, train(Example(model, example.sample))) == []
    stowage.unfit(example.model)
    assert not any("forward" in vars(module) for module in example.model.modules())
    assert differences(plain, train(example)) == []


def _gradients(model: nn.Module) -> list[Tensor | None]:
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    return found


def _same(one: list[Tensor | None], other: list[Tensor | None]) -> bool:
    return all(
        a is b is None or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _step(model: nn.Module, run: Callable[[nn.Module], Tensor]) -> list[Tensor | None]:
    torch.manual_seed(3)
    run(model).square().mean().backward()
    return _gradients(model)


_STEPS: dict[str, Callable[[Tensor], Callable[[nn.Module], Tensor]]] = {
    "more calls": lambda value: lambda model: model(value, calls=7),
    "fewer calls": lambda value: lambda model: model(value, calls=2),
    "no calls": lambda value: lambda model: model(value, calls=0),
    "larger": lambda value: lambda model: model(torch.cat([value, value])),
    "smaller": lambda value: lambda model: model(value[:9]),
    "two forwards": lambda value: lambda model: model(value) + model(value * 2),
    "its output again": lambda value: lambda model: model(model(value)),
    "a layer alone": lambda value: lambda model: model.layer(value),
}


@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("budget", ["0%", "50%"])
def test_steps_of_another_course_are_right(step: str, budget: str) -> None:
    example = _make("shared")
    plain = example.fresh()
    _fit(example, budget)
    run = _STEPS[step](example.sample)
    for _ in range(2):
        assert _same(_step(plain.model, run), _step(example.model, run))
    usual = _STEPS["more calls"](example.sample)
    assert _same(_step(plain.model, usual), _step(example.model, usual))


class Raises(nn.Module):
    def forward(self, value: Tensor) -> Tensor:
        raise KeyError("stop")


def test_a_forward_that_raises_leaves_the_next_one_as_it_was() -> None:
    example = _make("shared")
    plain = example.fresh()
    _fit(example, "50%")

    def run(model: nn.Module) -> Tensor:
        return model(example.sample)

    peak = _peak(example)
    handle = example.model.layer.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyError))
    with pytest.raises(KeyError):
        run(example.model)
    handle.remove()
    # The layer's calls are counted anew, so the plan is the one for each call.
    assert _peak(example) == peak
    example.model.zero_grad()
    assert _same(_step(plain.model, run), _step(example.model, run))


def _peak(example: Example) -> int:
    torch.manual_seed(5)
    work = Workload(example.forward, lambda output: output.square().mean(), DEVICE)
    metered_step(work)
    return metered_step(work)[1]


def test_a_larger_input_is_replayed_whatever_fits_the_sample() -> None:
    example = _make("stages")
    plain = example.fresh()
    fitted = _fit(example, "100%")
    assert fitted.answer is None
    larger = torch.cat([example.sample] * 4)
    one, other = Example(plain.model, larger), Example(example.model, larger)
    assert _peak(other) < 0.7 * _peak(one)
    plain.model.zero_grad()
    example.model.zero_grad()
    assert differences(train(one), train(other)) == []


def test_evaluation_and_no_grad_are_plain() -> None:
    example = _make("shared")
    _fit(example)
    plain = copy.deepcopy(example.model)
    for module in (plain, example.model):
        module.eval()
    with torch.no_grad():
        assert torch.equal(plain(example.sample), example.forward())


class Writes(nn.Module):
    """Changes its argument, or a list among its arguments, or what the model reads later."""

    class Layer(nn.Module):
        def __init__(self, how: str) -> None:
            super().__init__()
            self.block = models.Block(16)
            self.how = how

        def forward(self, value: Tensor, seen: list[Tensor]) -> Tensor:
            result = self.block(value + 1.0)
            if self.how == "list":
                seen.append(result.mean())
            if self.how == "argument":
                value.mul_(2.0)
            return result

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Writes.Layer(how) for _ in range(4))
        self.how = how

    def forward(self, value: Tensor) -> Tensor:
        seen: list[Tensor] = []
        for layer in self.layers:
            before = value + 1.0
            value = layer(before, seen).cos()
            if self.how == "later":
                before.mul_(2.0)
        return value + sum(seen)


@pytest.mark.parametrize("how", ["list", "argument", "later"])
def test_what_cannot_be_replayed_is_right_or_refused(how: str) -> None:
    torch.manual_seed(0)
    example = Example(Writes(how), _numbers(64, 16))
    plain = example.fresh()
    with pytest.raises(NotAChainError, match=r"layers"):
        _fit(example, layers=example.model.layers)
    try:
        _fit(example)
    except (NotAChainError, stowage.InfeasibleError):
        return
    assert differences(train(plain), train(example)) == []


def test_layers_inside_of_others_are_refused_by_name() -> None:
    example = _make("stages")
    layers = [example.model.stages[0], example.model.stages[0].blocks[1]]
    with pytest.raises(NotAChainError, match=r"stages\.0\.blocks\.1 is a part of stages\.0"):
        _fit(example, layers=layers)


def test_one_layer_alone_may_be_named() -> None:
    plain, example = train(_make("stages")), _make("stages")
    assert _names(_fit(example, layers=[example.model.stages[1]])) == ["stages.1"]
    assert differences(plain, train(example)) == []


@pytest.mark.parametrize("options", [{"run": "stowage"}, {"offload": True}, {"solver": "rotor"}])
def test_what_is_for_chains_alone_looks_for_one(options: dict[str, Any]) -> None:
    example = _make("stages")
    fitted = _fit(example, "50%", **options)
    assert _names(fitted) == ["stages.0", "stages.1", "stages.2"]


class Skipping(nn.Module):
    """Runs each of its layers, or does not, as LayerDrop does."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.layers = nn.ModuleList(models.Block(16) for _ in range(6))
        self.layerdrop = 0.5

    def forward(self, value: Tensor) -> Tensor:
        value = self.first(value)
        for layer in self.layers:
            if not self.training or torch.rand([]) >= self.layerdrop:
                value = layer(value)
        return value


@pytest.mark.parametrize("budget", ["0%", "50%"])
def test_layers_that_a_step_skips_at_random(budget: str) -> None:
    torch.manual_seed(0)
    example = Example(Skipping(), _numbers(64, 16))
    plain = train(example.fresh(), steps=6)
    fitted = _fit(example, budget)
    assert example.model.layerdrop == 0.5
    assert _names(fitted) == ["first", *(f"layers.{i}" for i in range(6))]
    assert "what is measured is without LayerDrop" in fitted.notes
    assert differences(plain, train(example, steps=6)) == []


def test_a_saved_profile_is_of_layers_of_the_same_kind(tmp_path: pathlib.Path) -> None:
    """Names of layers, and all else, are the same without LayerDrop, where they are a chain."""
    torch.manual_seed(0)
    example = Example(Skipping(), _numbers(64, 16))
    for probability, is_chain in ((0.5, False), (0.0, True), (0.5, False)):
        example.model.layerdrop = probability
        fitted = _fit(example, "50%", plan_cache=str(tmp_path))
        assert fitted.coordinator.is_chain == is_chain
    assert len(list(tmp_path.glob("*.profile.json"))) == 2


def test_skipping_layers_is_named_where_a_plan_cannot_be_for_it() -> None:
    example = Example(Skipping(), _numbers(64, 16))
    for options in ({"run": "stowage"}, {"offload": True}, {"solver": "rotor"}):
        with pytest.raises(stowage.StowageError, match="skips layers at random"):
            _fit(example, **options)
    assert example.model.layerdrop == 0.5


def test_torch_compile_of_the_whole_model() -> None:
    example = _make("towers")
    model = copy.deepcopy(example.model)
    plain = train(Example(torch.compile(model, backend="aot_eager"), example.sample), steps=2)
    _fit(example)
    torch._dynamo.reset()
    compiled = torch.compile(example.model, backend="aot_eager", fullgraph=True)
    fitted = train(Example(compiled, example.sample), steps=2)
    assert fitted.losses == plain.losses


class WithoutGradients(nn.Module):
    """Runs its first layers, and all of them for a target, without gradients."""

    def __init__(self, how: Callable[[], Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(6))
        self.how = how

    def forward(self, value: Tensor) -> Tensor:
        with self.how():
            target = value
            for layer in self.layers:
                target = layer(target)
            for layer in self.layers[:2]:
                value = layer(value)
        value, target = value.clone(), target.clone()
        for layer in self.layers[2:]:
            value = layer(value).tanh()
        return value - target


@pytest.mark.parametrize("how", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("budget", ["0%", "60%"])
def test_calls_without_gradients_are_no_layers(how: Callable[[], Any], budget: str) -> None:
    torch.manual_seed(0)
    example = Example(WithoutGradients(how), _numbers(64, 16))
    plain = train(example.fresh())
    assert _names(_fit(example, budget)) == [f"layers.{i}" for i in range(2, 6)]
    assert differences(plain, train(example)) == []


class CallsItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = models.Block(16)
        self.other = models.Block(16)

    def forward(self, value: Tensor, depth: int = 3) -> Tensor:
        value = self.other(self.one(value).sin())
        return value if depth == 0 else self(value.cos(), depth - 1)


def test_a_model_that_calls_itself() -> None:
    torch.manual_seed(0)
    example = Example(CallsItself(), _numbers(64, 16))
    plain = train(example.fresh())
    for budget in ("0%", "70%"):
        fresh = example.fresh()
        fitted = _fit(fresh, budget)
        assert len(_names(fitted)) == 8
        assert fitted.measured_peak_bytes is not None
        assert fitted.measured_peak_bytes < 1.05 * fitted.activations
        assert differences(plain, train(fresh)) == []


class Tree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = models.Block(16)

    def forward(self, value: Tensor, depth: int = 2) -> Tensor:
        value = self.block(value)
        return value if depth == 0 else self(value.sin(), depth - 1)


def test_a_layer_that_calls_itself_is_refused_by_name() -> None:
    example = Example(nn.Sequential(Tree(), models.Block(16)), _numbers(64, 16))
    with pytest.raises(NotAChainError, match="0 calls itself"):
        _fit(example, layers=[example.model[0]])


class SkipsByItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(12))

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            if torch.rand([]) < 0.5:
                value = layer(value)
        return value


def test_a_model_that_skips_layers_by_itself_is_refused_by_name() -> None:
    torch.manual_seed(0)
    example = Example(SkipsByItself(), _numbers(64, 16))
    with pytest.raises(NotAChainError, match=r"layers\.\d+ (is not called|does not get)"):
        _fit(example)
    assert not any("forward" in vars(module) for module in example.model.modules())


class Twice(nn.Module):
    """Two views of one input, and a weight of a layer that the model reads, too."""

    def __init__(self, is_chain: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(6))
        self.is_chain = is_chain

    def _tower(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value) if self.is_chain else layer(value).tanh()
        return value

    def forward(self, value: Tensor) -> Tensor:
        return nn.functional.linear(self._tower(value), self.layers[1].linear.weight)


@pytest.mark.parametrize("is_chain", [True, False], ids=["chain", "apart"])
@pytest.mark.parametrize("run", ["auto", "stowage"])
@pytest.mark.parametrize("budget", ["0%", "50%"])
def test_forwards_in_one_autocast_share_what_it_casts(
    is_chain: bool, run: str, budget: str
) -> None:
    """So that the gradients of a weight are summed as in plain training."""
    torch.manual_seed(0)
    example = Example(Twice(is_chain), _numbers(64, 16))
    plain = example.fresh()

    def views(model: nn.Module) -> Tensor:
        return model(example.sample) + model(example.sample * 2)

    with torch.autocast(DEVICE.type, torch.bfloat16):
        _fit(example, budget, run=run)
    gradients = []
    for model in (plain.model, example.model):
        torch.manual_seed(3)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = views(model).float().square().mean()
        loss.backward()
        gradients.append(_gradients(model))
    assert _same(*gradients)


@pytest.mark.parametrize("momentum", [1.0, None, 0.1])
def test_statistics_that_a_run_writes_as_they_were(momentum: float | None) -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = models.Block(16)
            self.norm = nn.Sequential(nn.BatchNorm1d(16, momentum=momentum), nn.Tanh())

        def forward(self, value: Tensor) -> Tensor:
            value = self.first(value)
            return sum(self.norm(value * scale) for scale in (1.0, 1.0, 2.0, 3.0))

    torch.manual_seed(0)
    example = Example(Norms(), _numbers(64, 16))
    plain = train(example.fresh())
    _fit(example, layers=[example.model.first, example.model.norm])
    assert differences(plain, train(example)) == []


def test_packed_sequences_are_arguments() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(16, 16)

        def forward(self, value: Any) -> Any:
            return self.rnn(value)[0]

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Reads() for _ in range(4))

        def forward(self, value: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(value, torch.tensor([9, 7, 4]).cpu())
            for layer in self.layers:
                packed = layer(packed)
            return packed.data

    torch.manual_seed(0)
    example = Example(Packed(), _numbers(9, 3, 16))
    plain = train(example.fresh())
    _fit(example)
    assert differences(plain, train(example)) == []

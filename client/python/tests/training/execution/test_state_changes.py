"""State changes between a forward and its backward: the gradient of plain training, or an error.

Every layer is replayed, by the executor most of them twice, so that what it reads then matters.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from device import DEVICE, generator
from models import Example, differences, loss_of, train
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import stowage
from stowage.torch.execution.coordinator import Coordinator
from stowage.torch.execution.executor import Pass
from stowage.torch.execution.program import Program
from stowage.torch.layers.stage import Stage
from stowage.torch.tensors.transfers import transfers_for

LENGTH = 6
# Of layers that are replayed, or torch's own of the one that is not.
REFUSED = r"layers\.\d.*(was changed|does not run as it did)|modified by an inplace operation"


def _nested() -> list[tuple[stowage.OperationKind, int]]:
    """Replays most layers twice."""
    kind = stowage.OperationKind
    order = [
        (kind.FORWARD_DISCARD if stage % 2 == 0 else kind.FORWARD_CHECKPOINT, stage)
        for stage in range(1, LENGTH)
    ]
    order += [(kind.FORWARD_SAVE, LENGTH), (kind.FORWARD_SAVE, LENGTH + 1)]
    order += [(kind.BACKWARD, LENGTH + 1), (kind.BACKWARD, LENGTH)]
    for stage in range(LENGTH - 1, 0, -1):
        if stage % 2 == 0:  # its input was dropped
            order.append((kind.FORWARD_CHECKPOINT, stage - 1))
        order += [(kind.FORWARD_SAVE, stage), (kind.BACKWARD, stage)]
    return order


def _in_turn() -> list[tuple[stowage.OperationKind, int]]:
    """Replays each layer right before its backward."""
    kind = stowage.OperationKind
    order = [(kind.FORWARD_CHECKPOINT, stage) for stage in range(1, LENGTH + 1)]
    order += [(kind.FORWARD_SAVE, LENGTH + 1), (kind.BACKWARD, LENGTH + 1)]
    for stage in range(LENGTH, 0, -1):
        order += [(kind.FORWARD_SAVE, stage), (kind.BACKWARD, stage)]
    return order


Replayed = Callable[[Any], contextlib.AbstractContextManager[None]]


@pytest.fixture(params=["stowage", "torch"])
def replayed(request: pytest.FixtureRequest) -> Replayed:
    """Has layers replayed by the executor, or layer by layer."""
    alone = request.param == "torch"
    order = _in_turn() if alone else _nested()
    operations = tuple(stowage.Operation(kind=step, stage=stage) for step, stage in order)
    program = Program.of(stowage.Schedule(operations=operations), LENGTH)
    assert program.in_turn == alone

    @contextlib.contextmanager
    def install(layers: Any) -> Iterator[None]:
        stages = [Stage(f"layers.{index}", [layer]) for index, layer in enumerate(layers)]
        coordinator = Coordinator(stages, program, transfers_for(DEVICE), (0,), alone=alone)
        coordinator.install()
        try:
            yield
        finally:
            coordinator.remove()

    return install


class Layer(nn.Module):
    """Reads all kinds of state."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)
        self.shift = nn.Parameter(torch.zeros(16), requires_grad=False)
        self.register_buffer("mask", torch.ones(16))
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.BatchNorm1d(16)
        self.active: str | None = "left"
        self.scale, self.power = 1.0, 1
        self.names = ["left"]
        self.scales = {"left": 1.0}
        self.table = torch.ones(16)
        self.extra: Tensor | None = None
        self.seen: list[Tensor] | None = [torch.full((16,), 2.0)]
        self.function = torch.tanh
        self.warm_ups = 0

    def forward(self, value: Tensor) -> Tensor:
        self.warm_ups += 1
        found = value if self.active is None else getattr(self, self.active)(value)
        for name in self.names:
            found = found + getattr(self, name)(value) * self.scales[name]
        found = (found * self.scale + self.shift) * self.mask * self.table
        found = found if self.extra is None else found + self.extra
        found = found if self.seen is None else found * self.seen[0]
        # Another kernel in the first steps, with the same tensors saved.
        found = found * (0.5 if self.warm_ups < 3 else 2.0)
        return value + self.dropout(self.norm(self.function(found) ** self.power))


class Layers(nn.Module):
    def __init__(self, make: Callable[[], nn.Module] = Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(LENGTH))

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value)
        return value


def _swap_weights(layer: Any) -> None:
    layer.left.weight.data = layer.right.weight.data.clone()


def _replace_parameter(layer: Any) -> None:
    layer.left.weight = nn.Parameter(layer.left.weight.detach() * 2)


def _replace_module(layer: Any) -> None:
    layer.left = nn.Linear(16, 16)


def _set(**values: Any) -> Callable[[Any], None]:
    def change(layer: Any) -> None:
        for name, value in values.items():
            setattr(layer, name, value)

    return change


CHANGES: dict[str, Callable[[Any], None]] = {
    "nothing": lambda layer: None,
    "eval": lambda layer: layer.eval(),
    "a part in eval": lambda layer: layer.norm.eval(),
    "adapter": _set(active="right"),
    "adapter off": _set(active=None),
    "number": _set(scale=3.0),
    "whole number": _set(power=3),
    "function": _set(function=torch.sin),
    "probability": lambda layer: _set(p=0.7)(layer.dropout),
    "list in place": lambda layer: layer.names.append("right") or layer.scales.update(right=2.0),
    "dict in place": lambda layer: layer.scales.update(left=2.0),
    "list replaced": _set(names=["right"], scales={"right": 1.0}),
    "table in place": lambda layer: layer.table.mul_(2),
    "table replaced": lambda layer: _set(table=layer.table * 2)(layer),
    "tensor for None": _set(extra=torch.ones(16)),
    "None for tensors in a list": _set(seen=None),
    "frozen parameter": lambda layer: layer.shift.add_(1.0),
    "weight in place": lambda layer: layer.left.weight.detach().mul_(2),
    "weight's data": _swap_weights,
    "another parameter": _replace_parameter,
    "another module": _replace_module,
    "buffer in place": lambda layer: layer.mask.mul_(0.5),
    "another buffer": _set(mask=torch.zeros(16)),
    "another run": lambda layer: layer(torch.randn(8, 16)),
    "a run without gradients": lambda layer: torch.no_grad()(layer)(torch.randn(8, 16)),
}
# What can be put back must be: an error would be right, but needless.
EXACT = {
    *("nothing", "eval", "a part in eval", "adapter", "adapter off", "number", "whole number"),
    *("function", "probability"),
}


def _gradients(model: Any, sample: Tensor, change: Callable[[Any], None]) -> list[Tensor]:
    torch.manual_seed(2)
    model.train()
    for _ in range(4):  # beyond the warm-up
        model.zero_grad()
        parameters = list(model.parameters())
        loss = loss_of(model(sample))
    with torch.no_grad():
        for layer in model.layers:
            change(layer)
    loss.backward()
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _outcome(model: Any, sample: Tensor, name: str) -> tuple[list[Tensor], str]:
    """Gradients, or what was said."""
    try:
        return _gradients(model, sample, CHANGES[name]), ""
    except RuntimeError as error:
        return [], str(error)


@pytest.mark.parametrize("name", CHANGES)
def test_the_gradient_of_plain_training_or_an_error(replayed: Replayed, name: str) -> None:
    torch.manual_seed(0)
    plain = Layers()
    model = copy.deepcopy(plain)
    sample = torch.randn(8, 16, generator=generator(1))
    expected, _ = _outcome(plain, sample, name)
    with replayed(model.layers):
        found, error = _outcome(model, sample, name)
    if error:
        assert name not in EXACT, error
        assert re.search(REFUSED, error), error
        return
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


class Skips(nn.Module):
    """Does nothing in some runs, by a generator of its own."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.draw = draw

    def forward(self, value: Tensor) -> Tensor:
        return value if self.draw() < 0.1 else torch.tanh(self.linear(value))


@pytest.mark.parametrize("kind", ["python", "numpy"])
def test_layers_that_skip_by_a_generator_of_their_own(replayed: Replayed, kind: str) -> None:
    torch.manual_seed(0)
    outcomes = set()
    for seed in range(40):
        draw = (
            random.Random(seed).random if kind == "python" else np.random.default_rng(seed).random
        )
        skipped: list[bool] = []

        def noting(draw: Any = draw, skipped: list[bool] = skipped) -> float:
            skipped.append(draw() < 0.1)
            return 0.0 if skipped[-1] else 1.0

        model = Layers(lambda noting=noting: Skips(noting))
        sample = torch.randn(8, 16)
        with replayed(model.layers):
            loss = loss_of(model(sample))
            in_forward = list(skipped)
            try:
                loss.backward()
            except RuntimeError as error:
                message = str(error)
                outcomes.add("refused" if re.search(REFUSED, message) else message)
                continue
        outcomes.add("right")
        expected = copy.deepcopy(model)
        for layer, skips in zip(expected.layers, in_forward, strict=True):
            layer.draw = lambda skips=skips: 0.0 if skips else 1.0
        expected.zero_grad()
        loss_of(expected(sample)).backward()
        for one, other in zip(model.parameters(), expected.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            assert one.grad is None or torch.equal(one.grad, other.grad)
    assert outcomes == {"refused", "right"}


class Swallows(nn.Module):
    """Catches everything that its inner layer raises."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.is_broken = False

    def forward(self, value: Tensor) -> Tensor:
        try:
            return value + self.inner(value * (2 if self.is_broken else 1)).exp()
        except BaseException:
            return value


def test_a_layer_that_swallows_every_exception(replayed: Replayed) -> None:
    torch.manual_seed(0)
    plain = Layers(Swallows)
    example = Example(copy.deepcopy(plain), torch.randn(8, 16))
    expected = train(Example(plain, example.sample))
    with replayed(example.model.layers):
        assert differences(expected, train(example)) == []


class Writes(nn.Module):
    """Writes an argument, which a replay then finds written."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor, side: Tensor | None = None) -> Tensor:
        found = torch.tanh(self.linear(value))
        return value + (found if side is None else found * side.add_(1.0))


class OneWrites(Layers):
    def __init__(self) -> None:
        super().__init__(Writes)

    def forward(self, value: Tensor) -> Tensor:
        side = torch.ones(16)
        for number, layer in enumerate(self.layers):
            value = layer(value, side) if number == 2 else layer(value)
        return value


def test_a_layer_that_writes_its_argument_is_refused(replayed: Replayed) -> None:
    torch.manual_seed(0)
    model = OneWrites()
    with replayed(model.layers):
        loss = loss_of(model(torch.randn(8, 16)))
        with pytest.raises(RuntimeError, match=r"an argument of layers\.2 was changed in place"):
            loss.backward()


class Ranges(nn.Module):
    """Counts ranges, in buffers that have no size before the first run."""

    low: Tensor
    high: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("low", torch.tensor([]))
        self.register_buffer("high", torch.tensor([]))

    def forward(self, value: Tensor) -> Tensor:
        found = self.linear(value)
        with torch.no_grad():
            low, high = found.amin(0), found.amax(0)
            if self.low.numel() == 0:
                self.low.resize_(low.shape).copy_(low)
                self.high.resize_(high.shape).copy_(high)
            else:
                torch.minimum(self.low, low, out=self.low)
                torch.maximum(self.high, high, out=self.high)
        return value + torch.tanh(found / (self.high - self.low))


def test_buffers_that_are_sized_at_their_first_use(replayed: Replayed) -> None:
    torch.manual_seed(0)
    plain = Example(Layers(Ranges), torch.randn(8, 16))
    example = plain.fresh()
    with replayed(example.model.layers):
        assert differences(train(plain), train(example)) == []


class Positions(nn.Module):
    """Makes tensors of the default type."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16, dtype=torch.bfloat16)

    def forward(self, value: Tensor) -> Tensor:
        at = torch.arange(value.shape[0]) / 100.0
        weight = torch.zeros(value.shape[0]).add(at.cos())
        return value + torch.tanh(self.linear(value) * weight.unsqueeze(-1)).to(value.dtype)


class Halves(TorchFunctionMode):
    """What gelu gives."""

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        return found * 0.5 if function is nn.functional.gelu else found


class Gelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        return value + nn.functional.gelu(self.linear(value))


@contextlib.contextmanager
def _bfloat16() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(
    ("make", "context", "dtype"),
    [(Positions, _bfloat16, torch.bfloat16), (Gelu, Halves, torch.float32)],
)
def test_contexts_of_the_forward_alone(
    replayed: Replayed, make: Any, context: Any, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    plain = Example(Layers(make), torch.randn(8, 16).to(dtype))
    example = plain.fresh()

    def forward(one: Example) -> Callable[[], Tensor]:
        def run() -> Tensor:
            with context():
                return one.forward()

        return run

    expected = train(plain, forward=forward(plain))
    with replayed(example.model.layers):
        assert differences(expected, train(example, forward=forward(example))) == []
    assert torch.get_default_dtype() is torch.float32


def _passes() -> list[Pass]:
    return [thing for thing in gc.get_objects() if type(thing) is Pass]


def test_a_pass_that_an_error_between_layers_ends_leaves_nothing(replayed: Replayed) -> None:
    torch.manual_seed(0)
    example = Example(Layers(), torch.randn(8, 16))
    failures: list[str] = []
    others = _passes()

    def fails(module: nn.Module, args: Any, output: Tensor) -> None:
        raise ValueError("on purpose")

    with replayed(example.model.layers):
        handle = example.model.layers[3].register_forward_hook(fails)
        try:
            example.forward()
        except ValueError as error:
            failures.append(str(error))
        gc.collect()
        assert failures == ["on purpose"]
        assert all(any(one is other for other in others) for one in _passes())
        handle.remove()
        loss_of(example.forward()).backward()


def _tokens() -> dict[str, Any]:
    ids = torch.randint(3, 200, (2, 24), generator=generator(4))
    return {"input_ids": ids, "labels": ids}


SIZES = {
    "num_hidden_layers": 5, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 200, "use_cache": False,
}  # fmt: skip


def _same_steps(model: nn.Module, step: Callable[[Any, int], Tensor], run: str) -> None:
    torch.manual_seed(0)
    plain = copy.deepcopy(model)
    sample = _tokens()
    fitted = stowage.fit(model, sample, activations="15%", verbose=False, run=run)
    assert fitted.answer is not None
    for number in range(2):
        for one in (plain, model):
            one.zero_grad()
            torch.manual_seed(3)
            step(one, number).backward()
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)  # type: ignore[arg-type]


def _hidden(model: Any, number: int) -> Tensor:
    out = model(**_tokens(), output_hidden_states=number > 0)
    return out.loss + sum(h.square().mean() for h in (out.hidden_states or ())[2:5])


def _attentions(model: Any, number: int) -> Tensor:
    out = model(**_tokens(), output_attentions=number > 0)
    return out.loss + sum(a.square().sum() for a in (out.attentions or ())[2:3])


@pytest.mark.parametrize("run", ["stowage", "torch"])
@pytest.mark.parametrize("step", [_hidden, _attentions])
def test_what_transformers_collects_by_hooks_gets_its_gradient(step: Any, run: str) -> None:
    config = transformers.LlamaConfig(**SIZES, attn_implementation="eager")
    _same_steps(transformers.LlamaForCausalLM(config), step, run)


@pytest.mark.parametrize("run", ["stowage", "torch"])
@pytest.mark.parametrize("in_sample", [True, False])
def test_the_loss_of_a_router_gets_its_gradient(in_sample: bool, run: str) -> None:
    config = transformers.MixtralConfig(
        **SIZES, num_local_experts=4, num_experts_per_tok=2, output_router_logits=in_sample
    )
    model = transformers.MixtralForCausalLM(config).train()
    _same_steps(
        model,
        lambda one, number: one(**_tokens(), output_router_logits=in_sample or number > 0).loss,
        run,
    )


def test_gradients_of_gradients_are_right_or_refused_by_name(replayed: Replayed) -> None:
    torch.manual_seed(0)
    plain = Layers(Gelu)
    model = copy.deepcopy(plain)
    sample = torch.randn(8, 16)

    def twice(one: Layers) -> list[Tensor]:
        parameters = list(one.parameters())
        gradients = torch.autograd.grad(loss_of(one(sample)), parameters, create_graph=True)
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
        return list(torch.autograd.grad(norm, parameters))

    with replayed(model.layers):
        try:
            found = twice(model)
        except RuntimeError as raised:
            error = str(raised)
        else:
            error = ""
    if error:
        assert re.search(r"layers\.\d.*create_graph", error)
        return
    for one, other in zip(twice(plain), found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_second_backward_is_right_or_refused_by_name(replayed: Replayed) -> None:
    torch.manual_seed(0)
    plain = Layers()
    model = copy.deepcopy(plain)
    sample = torch.randn(8, 16)
    with replayed(model.layers):
        torch.manual_seed(3)
        loss = loss_of(model(sample))
        loss.backward(retain_graph=True)
        try:
            loss.backward()
        except RuntimeError as raised:
            error = str(raised)
        else:
            error = ""
    if error:
        assert re.search(r"layers\.\d.*retain_graph", error)
        return
    torch.manual_seed(3)
    loss = loss_of(plain(sample))
    loss.backward(retain_graph=True)
    loss.backward()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)  # type: ignore[arg-type]

"""`fit` leaves a model, its sample and generators exactly as they were, also where it fails."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import models
import numpy as np
import pytest
import torch
from device import DEVICE
from models import Example, loss_of
from torch import Tensor, nn

import stowage
from stowage.torch.layers.structure import tensors_of


class Sized(nn.Module):
    """Ranges of channels, whose buffers are empty until the first forward resizes them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("low", torch.empty(0))

    def forward(self, value: Tensor) -> Tensor:
        value = torch.tanh(self.linear(value))
        with torch.no_grad():
            low = value.amin(0)
            if self.low.numel() == 0:
                self.low.resize_(low.shape).copy_(low)
            else:
                torch.minimum(self.low, low, out=self.low)
        return value


class Replaced(nn.Module):
    """A buffer that is another tensor after each forward, and two that no checkpoint has."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("seen", torch.zeros(16), persistent=False)
        self.register_buffer("none", None, persistent=False)

    def forward(self, value: Tensor) -> Tensor:
        self.count = self.count + 1
        value = torch.tanh(self.linear(value))
        self.seen.copy_(value.detach().mean(0))
        self.none = self.count * 2
        return value


class Added(nn.Module):
    """Has a buffer and a part only once it has run."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        if not hasattr(self, "last"):
            self.register_buffer("last", torch.zeros(16), persistent=False)
            self.part = nn.Identity()
        return self.part(torch.tanh(self.linear(value)))


def _nothing(*_: Any) -> None:
    pass


class Normalized(nn.Module):
    """Writes its own weights in each forward: in place, by ``.data``, and anew."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(16, 16) for _ in range(3))
        self.third.requires_grad_(False)

    def forward(self, value: Tensor) -> Tensor:
        with torch.no_grad():
            self.first.weight.div_(self.first.weight.norm())
        self.second.weight.data.clamp_(-0.1, 0.1)
        mean = (self.first.weight + self.second.weight).detach() / 2
        self.third.weight.data = self.third.weight.data * 0.9 + mean * 0.1
        with torch.no_grad():
            aside = self.third(value)
        return torch.tanh(self.second(self.first(value))) + aside


class Begins(nn.Module):
    """What writes its weights comes before the layers, which read none of them."""

    def __init__(self, begin: nn.Module) -> None:
        super().__init__()
        self.begin = begin
        self.layers = nn.Sequential(*(models.Block(16) for _ in range(5)))

    def forward(self, value: Tensor) -> Tensor:
        return self.layers(self.begin(value))


class Switches(nn.Module):
    """Changes training modes and flags of parameters when it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.block = models.Block(16)

    def forward(self, value: Tensor) -> Tensor:
        self.block.norm.eval()
        self.block.linear.bias.requires_grad_(False)
        return self.block(value)


class StartsByData(nn.Module):
    """A hook sets its scale by the first batch and then removes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.ones(16))
        self.handle = self.register_forward_pre_hook(self._start)

    @staticmethod
    def _start(module: nn.Module, args: Any) -> None:
        with torch.no_grad():
            module.scale.copy_(1 / (args[0].std(0) + 1))
        module.handle.remove()

    def forward(self, value: Tensor) -> Tensor:
        return torch.tanh(self.linear(value * self.scale))


class Draws(nn.Module):
    """Reads all generators."""

    def forward(self, value: Tensor) -> Tensor:
        noise = torch.rand_like(value)
        return value * (random.random() + float(np.random.rand())) + noise


class WritesItsInput(nn.Module):
    def forward(self, value: Tensor) -> Tensor:
        return value.mul_(2)


class Head(nn.Module):
    """A loss with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.linear.weight.grad = torch.ones(3, 3)

    def forward(self, output: Tensor) -> Tensor:
        return loss_of(self.linear(output))


@dataclass(frozen=True)
class Kind:
    example: Example
    loss: Callable[[Any], Tensor] = loss_of
    options: dict[str, Any] = field(default_factory=dict)


def _layers(make: Callable[[], nn.Module]) -> Kind:
    model = nn.Sequential(*(make() for _ in range(6)), nn.Linear(16, 3))
    return Kind(Example(model, models.make("blocks").sample), options={"layers": list(model)})


def _begins(make: Callable[[], nn.Module]) -> Kind:
    model = Begins(make())
    example = Example(model, models.make("blocks").sample)
    return Kind(example, options={"layers": list(model.layers)})


def _frozen() -> Kind:
    example = models.make("blocks")
    for index in (0, 1, 4):
        example.model[index].requires_grad_(False)
    return Kind(example)


def _tied() -> Kind:
    example = models.make("blocks")
    example.model[4].linear.weight = example.model[0].linear.weight
    return Kind(example)


def _evaluated() -> Kind:
    example = models.make("blocks")
    example.model[2].eval()
    return Kind(example)


def _sample_with_gradient() -> Kind:
    example = models.make("blocks")
    example.sample.requires_grad_()
    example.sample.grad = torch.ones_like(example.sample)
    return Kind(example)


def _sparse() -> Kind:
    example = models.make("blocks")
    example.model[2].register_buffer("graph", torch.eye(16).to_sparse())
    return Kind(example)


SMALL: dict[str, Callable[[], Kind]] = {
    "blocks": lambda: Kind(models.make("blocks")),
    "buffers sized at first use": lambda: _layers(Sized),
    "buffers replaced": lambda: _layers(Replaced),
    "added when it runs": lambda: _begins(Added),
    "weights written": lambda: _begins(Normalized),
    "modes and flags switched": lambda: _begins(Switches),
    "started by data": lambda: _begins(StartsByData),
    "all generators": lambda: _begins(Draws),
    "sample written": lambda: _begins(WritesItsInput),
    "sample with a gradient": _sample_with_gradient,
    "loss with parameters": lambda: Kind(models.make("blocks"), Head()),
    "frozen": _frozen,
    "tied": _tied,
    "partly evaluated": _evaluated,
    "sparse buffer": _sparse,
}
KINDS: dict[str, Callable[[], Kind]] = {
    **SMALL,
    # DenseNet has no kind of layer that ResNet has not, and takes half a minute.
    **{
        name: lambda name=name: Kind(models.make(name))
        for name in models.MODELS
        if name != "densenet121"
    },
}


def _make(name: str) -> Kind:
    """With a gradient in every second parameter."""
    torch.manual_seed(0)
    kind = KINDS[name]()
    parameters = [p for p in kind.example.model.parameters() if p.requires_grad]
    for parameter in parameters[::2]:
        parameter.grad = torch.full_like(parameter, 0.5)
    kind.example.model.apply(_with_hooks)
    return kind


def _with_hooks(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        if parameter.requires_grad:
            parameter.register_hook(_nothing)
            parameter.register_post_accumulate_grad_hook(_nothing)


# Facts by name. Tensors are compared by content, all else by equality.
Facts = dict[str, Any]


def _facts(kind: Kind) -> Facts:
    facts: Facts = {
        "random state": torch.get_rng_state(),
        "random state of Python": random.getstate(),
        "random state of numpy": str(np.random.get_state()),
    }
    if DEVICE.type == "cuda":
        facts["random state of the device"] = torch.cuda.get_rng_state(DEVICE)
    roots = {"model": kind.example.model}
    if isinstance(kind.loss, nn.Module):
        roots["loss"] = kind.loss
    for root, model in roots.items():
        for path, module in model.named_modules(prefix=root):
            facts[f"{path} kind"] = type(module)
            for name, value in vars(module).items():
                if name.startswith("_") and isinstance(value, (dict, set)):
                    facts[f"{path} {name}"] = [id(value), *_identities(value)]
            facts[f"{path} training"] = module.training
            for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
                facts.update(_facts_of(f"{path}.{name}", tensor))
    for number, tensor in enumerate(tensors_of(kind.example.sample)):
        facts.update(_facts_of(f"sample {number}", tensor))
    return facts


def _identities(registry: Any) -> list[Any]:
    entries = registry.items() if isinstance(registry, dict) else registry
    return (
        [(key, id(value)) for key, value in entries] if isinstance(registry, dict) else [*entries]
    )


def _facts_of(name: str, tensor: Tensor | None) -> Facts:
    if tensor is None:
        return {name: None}
    facts = {
        name: tensor.detach().clone(),
        f"{name} form": (tensor.shape, tensor.dtype, tensor.requires_grad, tensor.is_leaf),
        f"{name} hooks": list(tensor._backward_hooks or {}),
        f"{name} hooks after": list(getattr(tensor, "_post_accumulate_grad_hooks", None) or {}),
    }
    if tensor.layout == torch.strided:
        storage = tensor.untyped_storage()
        facts[f"{name} memory"] = (storage.nbytes(), tensor.stride(), tensor.storage_offset())
    if tensor.is_leaf and tensor.grad is not None:
        facts[f"{name} gradient"] = tensor.grad.clone()
        facts[f"{name} gradient's identity"] = id(tensor.grad)
    return facts


def _differences(before: Facts, after: Facts) -> list[str]:
    found = sorted(before.keys() ^ after.keys())
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            one, other = (t.to_dense() if t.layout != torch.strided else t for t in (one, other))
            same = one.shape == other.shape and torch.equal(one, other)
        else:
            same = type(one) is type(other) and one == other
        found += [] if same else [name]
    return found


def _fit(kind: Kind, **more: Any) -> stowage.torch.Fitted:
    arguments = {"activations": "30%", "loss": kind.loss, "verbose": False, **kind.options, **more}
    return stowage.fit(kind.example.model, kind.example.sample, **arguments)


@pytest.mark.parametrize("name", KINDS)
def test_a_fit_that_succeeds_leaves_all_as_it_was(name: str) -> None:
    kind = _make(name)
    before = _facts(kind)
    _fit(kind)
    after = _facts(kind)
    stowage.unfit(kind.example.model)
    assert _differences(before, after) == []
    assert _differences(before, _facts(kind)) == []


class AddsHooks(nn.Module):
    """Adds hooks in its first forward, and notes that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.has_hooks = False
        self.calls: list[int] = []

    def forward(self, value: Tensor) -> Tensor:
        if not self.has_hooks:
            self.has_hooks = True
            self.linear.register_forward_hook(lambda *_: self.calls.append(1))
            self.linear.weight.register_hook(_nothing)
        return torch.tanh(self.linear(value))


def test_hooks_that_a_model_adds_in_a_step_stay() -> None:
    kind = _begins(AddsHooks)
    _fit(kind)
    stowage.unfit(kind.example.model)
    first = next(part for part in kind.example.model.modules() if isinstance(part, AddsHooks))
    assert len(first.linear._forward_hooks) == 1
    assert len(first.linear.weight._backward_hooks or {}) == 1
    before = len(first.calls)
    kind.loss(kind.example.forward())
    assert len(first.calls) == before + 1


class OnPurposeError(Exception):
    pass


@contextlib.contextmanager
def _failing(kind: Kind, where: str, step: int) -> Iterator[dict[str, Any]]:
    """What `fit` gets so that the loss, a layer's forward or a gradient fails in this step, from 1,
    or in the next one that has it. Losses count the steps, since schedules differ in forwards.
    """
    losses = 0

    def loss(output: Any) -> Tensor:
        nonlocal losses
        losses += 1
        if where == "loss":
            fail()
        return kind.loss(output)

    def fail(*_: Any) -> None:
        if losses >= (step - 1 if where == "forward" else step):
            raise OnPurposeError

    trained = [
        (module, parameter)
        for module in kind.example.model.modules()
        for parameter in module._parameters.values()
        if parameter is not None and parameter.requires_grad
    ]
    module, parameter = trained[len(trained) // 2]
    handle = None
    if where == "forward":
        handle = module.register_forward_pre_hook(fail)
    elif where == "backward":
        handle = parameter.register_hook(fail)
    try:
        yield {"loss": loss}
    finally:
        if handle is not None:
            handle.remove()


def _steps(kind: Kind) -> int:
    """How many losses a fit computes."""
    steps = 0

    def loss(output: Any) -> Tensor:
        nonlocal steps
        steps += 1
        return kind.loss(output)

    _fit(kind, loss=loss)
    stowage.unfit(kind.example.model)
    return steps


def _check_failing(kind: Kind, where: str, step: int) -> None:
    with _failing(kind, where, step) as arguments:
        before = _facts(kind)
        with pytest.raises(OnPurposeError):
            _fit(kind, **arguments)
        assert _differences(before, _facts(kind)) == [], step


@pytest.mark.parametrize("where", ["loss", "forward", "backward"])
@pytest.mark.parametrize("name", SMALL)
def test_a_fit_that_fails_leaves_all_as_it_was(name: str, where: str) -> None:
    kind = _make(name)
    last = _steps(kind)
    # In finding layers, in measuring, in comparing and, last, in measuring the schedule.
    for step in (1, 2, last // 2, last - 4, last):
        _check_failing(kind, where, step)


_WITHOUT_PLAN = {"vit"}


@pytest.mark.parametrize("name", sorted(KINDS.keys() - SMALL.keys()))
def test_a_fit_of_a_model_that_fails_at_last_leaves_all_as_it_was(name: str) -> None:
    kind = _make(name)
    # Where there is no plan, layers are measured last, outside of the step.
    where = "loss" if name in _WITHOUT_PLAN else "backward"
    _check_failing(kind, where, _steps(kind))


@pytest.mark.parametrize(
    "arguments", [{"activations": 1}, {"activations": "many"}, {"layers": []}, {"solver": "none"}]
)
def test_a_fit_that_is_refused_leaves_all_as_it_was(arguments: dict[str, Any]) -> None:
    kind = _make("buffers sized at first use")
    before = _facts(kind)
    with pytest.raises(stowage.StowageError):
        _fit(kind, **arguments)
    assert _differences(before, _facts(kind)) == []


@pytest.mark.parametrize("lazy", [nn.LazyLinear(16), nn.LazyBatchNorm1d(affine=False)])
def test_what_has_no_size_yet_is_refused_by_name(lazy: nn.Module) -> None:
    model = nn.Sequential(lazy, *(models.Block(16) for _ in range(3)))
    kind = type(lazy)
    tensors = [*lazy._parameters.values(), *lazy._buffers.values()]
    sample, state = torch.randn(8, 16), torch.get_rng_state()
    with pytest.raises(stowage.StowageError, match=r"^0\.\w+ has no size .* call the model once"):
        stowage.fit(model, sample, activations="30%", loss=loss_of, verbose=False)
    assert type(lazy) is kind
    now = [*lazy._parameters.values(), *lazy._buffers.values()]
    assert all(one is other for one, other in zip(tensors, now, strict=True))
    assert lazy.has_uninitialized_params()
    assert torch.equal(state, torch.get_rng_state())


class WritesLater(nn.Module):
    """Writes its weight from the third run on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.runs = 0

    def forward(self, value: Tensor) -> Tensor:
        self.runs += 1
        if self.runs > 2:
            with torch.no_grad():
                self.linear.weight.mul_(0.5)
        return torch.tanh(self.linear(value))


def test_a_parameter_that_cannot_be_put_back_is_named() -> None:
    kind = _begins(WritesLater)
    with pytest.raises(stowage.StowageError, match=r"^begin\.linear\.weight was changed by a step"):
        _fit(kind)

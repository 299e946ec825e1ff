"""`stowage.fit` as its users meet it."""

from __future__ import annotations

import copy
import functools
import gc
import pathlib
import pickle
import resource
import types
import weakref
from typing import Any

import models
import pytest
import torch
from device import DEVICE
from models import Example, differences, loss_of, train
from torch import Tensor, nn

import stowage
from stowage import BudgetError, NotAChainError
from stowage.torch.execution.alone import CallAlone
from stowage.torch.execution.executor import Pass
from stowage.torch.measuring.workload import MeteredStep, Workload, metered_step

both = pytest.mark.parametrize("run", ["stowage", "torch"])


def _fit(example: Example, run: str = "auto", **more: Any) -> stowage.torch.Fitted:
    if run == "torch":
        more.pop("solver", None)
    return stowage.fit(
        example.model,
        example.sample,
        **{"activations": "20%", "loss": loss_of, "verbose": False, "run": run, **more},
    )


@pytest.mark.parametrize("name", ["blocks", "gpt2", "bert"])
@both
def test_fits_trains_and_unfits(run: str, name: str) -> None:
    expected = train(models.make(name))
    example = models.make(name)
    names = list(example.model.state_dict())
    fitted = _fit(example, run=run)
    assert fitted.answer is not None
    assert list(example.model.state_dict()) == names
    assert differences(expected, train(example)) == []
    stowage.unfit(example.model)
    assert not any("forward" in module.__dict__ for module in example.model.modules())
    again = models.make(name)
    again.model.load_state_dict(models.make(name).model.state_dict())
    assert differences(expected, train(again)) == []


@both
def test_fit_itself_changes_nothing(run: str) -> None:
    example = models.make("blocks")
    before = {name: tensor.clone() for name, tensor in example.model.state_dict().items()}
    state = torch.get_rng_state()
    example.model[0].linear.weight.grad = gradient = torch.ones(16, 16)
    _fit(example, run=run)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], t) for name, t in example.model.state_dict().items())
    assert example.model[0].linear.weight.grad is gradient
    assert torch.equal(gradient, torch.ones(16, 16))
    assert example.model[1].linear.weight.grad is None


def test_plain_is_the_plan_where_it_fits() -> None:
    example = models.make("blocks")
    fitted = _fit(example, activations="1GiB")
    assert fitted.answer is None
    assert "nothing is recomputed" in str(fitted)
    assert fitted.measured_peak_bytes == fitted.profile.plain_peak_bytes
    assert all(layer.kept == "all" for layer in stowage.report(example.model).layers)


@both
def test_says_the_least_memory_where_nothing_fits_and_that_works(run: str) -> None:
    example = models.make("gpt2")
    with pytest.raises(stowage.InfeasibleError, match="the least that works is") as raised:
        _fit(example, activations=None, memory=stowage_least(example) + 1, run=run)
    least = raised.value.minimum_memory_bytes
    assert least is not None
    _fit(example, activations=None, memory=int(least * 1.02), run=run)


def stowage_least(example: Example) -> int:
    """What weights, gradients and Adam's state take."""
    parameters = sum(p.nbytes for p in {id(p): p for p in example.model.parameters()}.values())
    return 4 * parameters + sum(b.nbytes for b in example.model.buffers())


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, value: Tensor) -> Tensor:
        return value + self.inner(value)


@pytest.mark.parametrize("name", ["residual", "blocks", "gpt2"])
@both
def test_the_range_is_from_the_least_that_works_to_plain_training(run: str, name: str) -> None:
    torch.manual_seed(0)
    if name == "residual":
        model = nn.Sequential(*(_Residual() for _ in range(6)))
        example = Example(model, torch.randn(32, 64))
    else:
        example = models.make(name)
    least = _fit(example, activations="0%", run=run)
    plain = _fit(example, activations="100%", run=run)
    assert least.answer is not None
    assert plain.answer is None
    assert plain.activations == plain.profile.plain_peak_bytes
    assert least.activations < plain.activations
    with pytest.raises(stowage.InfeasibleError):
        _fit(example, activations=int(least.activations * 0.5), run=run)
    middle = _fit(example, activations="50%", run=run).activations
    assert middle == pytest.approx((least.activations + plain.activations) / 2, rel=0.02)


@pytest.mark.parametrize("memory", ["12Gib", "-1", "150%", -5, "many", 1.5, True])
def test_a_budget_that_cannot_be_read_is_named(memory: Any) -> None:
    with pytest.raises(BudgetError, match="memory: is"):
        _fit(models.make("blocks"), activations=None, memory=memory)


def test_a_budget_below_the_weights_says_what_they_take() -> None:
    with pytest.raises(BudgetError, match="weights, gradients and the optimizer's state alone"):
        _fit(models.make("blocks"), activations=None, memory=1000)


def test_one_of_memory_and_activations() -> None:
    with pytest.raises(BudgetError, match="one of the two"):
        _fit(models.make("blocks"), memory="1GiB")


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"layer": []}, TypeError, r"fit\(\) got .* 'layer'"),
        ({"optimizer": "sgd"}, TypeError, "optimizer: is 'sgd'"),
        ({"run": "pytorch"}, ValueError, "run: is 'pytorch'; pass one of 'auto', 'torch'"),
        ({"run": "torch", "offload": True}, ValueError, "offload: run='torch' sends nothing"),
    ],
)
def test_arguments_are_named(arguments: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        _fit(models.make("blocks"), **arguments)


def test_what_cannot_be_trained_is_said() -> None:
    example = models.make("blocks")
    for sample in ([], [[example.sample]]):
        with pytest.raises(TypeError, match="sample: pass a tensor"):
            stowage.fit(example.model, sample, activations="20%")
    with torch.no_grad(), pytest.raises(stowage.StowageError, match="gradients are off"):
        _fit(example)
    example.model.requires_grad_(False)
    with pytest.raises(stowage.StowageError, match="no parameter of the model needs a gradient"):
        _fit(example)


@both
def test_layers_are_taken_as_given(run: str) -> None:
    example = models.make("blocks")
    fitted = _fit(example, layers=[example.model[i] for i in range(2, 6)], run=run)
    assert [stage.name for stage in fitted.coordinator.stages] == ["2", "3", "4", "5"]
    assert differences(train(models.make("blocks")), train(example)) == []


class Masked(nn.Module):
    """Two tensors in turn beside the value, made before the layers, or by each for the next."""

    def __init__(self, of_layers: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(6))
        for layer in self.layers:
            layer.forward = functools.partial(self.run, layer)  # type: ignore[method-assign]
        self.of_layers = of_layers

    @staticmethod
    def run(layer: models.Block, value: Tensor, scale: Tensor) -> Tensor:
        return type(layer).forward(layer, value) * scale

    def forward(self, value: Tensor) -> Tensor:
        scales = [torch.full((16,), 0.5), torch.full((16,), 1.5)]
        for number, layer in enumerate(self.layers):
            scale = value.mean() if self.of_layers and number > 0 else scales[number % 2]
            value = layer(value, scale)
        return value


@both
def test_layers_may_get_different_tensors_that_no_gradient_passes_through(run: str) -> None:
    def make() -> Example:
        torch.manual_seed(0)
        return Example(Masked(of_layers=False), torch.randn(8, 16))

    example = make()
    fitted = _fit(example, run=run)
    assert [stage.name for stage in fitted.coordinator.stages] == [f"layers.{i}" for i in range(6)]
    assert fitted.answer is not None
    assert differences(train(make()), train(example)) == []


def _is_fitted_apart(model: nn.Module) -> None:
    example = Example(model, torch.randn(8, 16))
    plain = train(example.fresh())
    for budget in ("0%", "50%"):
        fresh = example.fresh()
        fitted = _fit(fresh, activations=budget, layers=fresh.model.layers)
        assert not fitted.coordinator.is_chain
        assert differences(plain, train(fresh)) == []


def test_a_tensor_of_earlier_layers_ends_the_chain() -> None:
    model = Masked(of_layers=True)
    with pytest.raises(NotAChainError, match=r"layers\.2 gets other tensors than layers\.1"):
        _fit(Example(model, torch.randn(8, 16)), layers=model.layers, run="stowage")
    _is_fitted_apart(model)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(4))

    def forward(self, value: Tensor) -> Tensor:
        for layer in [*self.layers, self.layers[0]]:
            value = layer(value)
        return value


def test_a_layer_that_is_called_twice_is_in_no_chain() -> None:
    model = Twice()
    with pytest.raises(NotAChainError, match=r"layers\.0 is called 2 times"):
        _fit(Example(model, torch.randn(8, 16)), layers=model.layers, run="stowage")
    _is_fitted_apart(model)


class Between(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(models.Block(16) for _ in range(4))

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = layer(value) * 0.5
        return value


def test_a_change_between_layers_ends_the_chain() -> None:
    model = Between()
    with pytest.raises(NotAChainError, match=r"layers\.1 does not get the output of layers\.0"):
        _fit(Example(model, torch.randn(8, 16)), layers=model.layers, run="stowage")
    _is_fitted_apart(model)


class Borrower(nn.Module):
    """Uses a parameter that is another module's."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.borrowed = [weight]
        self.linear = nn.Linear(16, 16)

    def forward(self, value: Tensor) -> Tensor:
        return self.linear(value) @ self.borrowed[0]


def test_a_parameter_from_elsewhere_is_refused_by_name() -> None:
    model = nn.Sequential(nn.Linear(16, 16), *(models.Block(16) for _ in range(3)))
    model.append(Borrower(model[0].weight))
    with pytest.raises(NotAChainError, match=r"4 uses 0\.weight"):
        _fit(Example(model, torch.randn(8, 16)))


class Counting(nn.Module):
    """Gives something else each time it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.runs = [0]

    def forward(self, value: Tensor) -> Tensor:
        self.runs[0] += 1
        return self.linear(value) * self.runs[0]


@both
def test_a_layer_that_cannot_run_again_runs_once_a_step(run: str) -> None:
    model = nn.Sequential(*(models.Block(16) for _ in range(5)))
    model.insert(2, Counting())
    example = Example(model, torch.randn(8, 16))
    fitted = _fit(example, activations="30%", run=run)
    assert any("2 gives another result" in note for note in fitted.notes)
    before = model[2].runs[0]
    loss_of(example.forward()).backward()
    assert model[2].runs[0] == before + 1


@both
def test_in_place_layers_join_the_one_before(run: str) -> None:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(4):
        parts += [nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True)]
    example = Example(nn.Sequential(*parts), torch.randn(8, 16))
    expected = train(example.fresh())
    fitted = _fit(example, run=run)
    assert fitted.coordinator.stages[1].name == "1..2"
    assert differences(expected, train(example)) == []


@pytest.mark.parametrize("passes", [nn.Identity(), nn.Dropout(0.0), nn.Dropout(0.3)])
@pytest.mark.parametrize("training", [True, False])
def test_in_place_layers_join_the_one_that_made_their_input(
    passes: nn.Module, training: bool
) -> None:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(5):
        parts += [nn.Linear(16, 16), copy.deepcopy(passes), nn.ReLU(inplace=True)]
    example = Example(nn.Sequential(*parts, nn.Linear(16, 16)).train(training), torch.randn(8, 16))
    expected = train(example.fresh())
    fitted = _fit(example, activations="50%", solver="rotor")
    assert fitted.answer is not None
    assert [stage.name for stage in fitted.coordinator.stages[:2]] == ["0..2", "3..5"]
    assert differences(expected, train(example)) == []
    plain = example.fresh()
    for one in (plain, example):
        one.model.train(not training)
    assert differences(train(plain), train(example)) == []


@both
def test_a_frozen_layer_and_a_frozen_beginning(run: str) -> None:
    for frozen in ([2], [0, 1, 2]):
        example = models.make("blocks")
        for index in frozen:
            example.model[index].requires_grad_(False)
        expected = train(example.fresh())
        _fit(example, run=run)
        assert differences(expected, train(example)) == []


@both
def test_evaluation_is_untouched(run: str) -> None:
    example = models.make("blocks")
    plain = example.fresh()
    _fit(example, run=run)
    for one in (example, plain):
        one.model.eval()
    with torch.no_grad():
        assert torch.equal(example.forward(), plain.forward())


@both
def test_copies_and_pickles_are_plain_models(run: str) -> None:
    example = models.make("blocks")
    _fit(example, run=run)
    expected = train(models.make("blocks"))
    for model in (copy.deepcopy(example.model), pickle.loads(pickle.dumps(example.model))):
        assert differences(expected, train(Example(model, example.sample))) == []
    assert differences(expected, train(example)) == []


def _doubled(module: torch.nn.Module, *args: Any) -> Any:
    return 2 * type(module).forward(module, *args)


@pytest.mark.parametrize("bind", [functools.partial, types.MethodType])
def test_copies_of_layers_with_a_forward_of_their_own_have_that(bind: Any) -> None:
    example = models.make("blocks")
    for layer in example.model:
        layer.forward = bind(_doubled, layer)
    plain = copy.deepcopy(example.model)
    _fit(example)
    example.model.eval()  # without dropout
    expected = example.forward()
    copied = [copy.deepcopy(example.model)]
    if bind is functools.partial:  # the other is pickled by its name, which no class has
        copied.append(pickle.loads(pickle.dumps(example.model)))
    with torch.no_grad():
        for parameter in example.model.parameters():  # the copies have parameters of their own
            parameter.zero_()
    for model in (plain, *copied):
        assert torch.equal(model.eval()(example.sample), expected)
        assert type(model[0].forward) is bind


@both
def test_the_step_after_an_exception_is_right(run: str) -> None:
    example = models.make("blocks")
    _fit(example, run=run)
    for where in ("forward", "backward"):
        layer = example.model[3].linear
        if where == "forward":
            handle = layer.register_forward_pre_hook(_raise)
        else:
            handle = layer.register_full_backward_hook(_raise)
        with pytest.raises(RuntimeError, match="on purpose"):
            loss_of(example.forward()).backward()
        handle.remove()
    fresh = models.make("blocks")
    example.model.load_state_dict(fresh.model.state_dict())
    example.model.zero_grad()
    assert differences(train(fresh), train(example)) == []


def _raise(*_: Any) -> None:
    raise RuntimeError("on purpose")


@both
def test_two_forwards_before_their_backwards(run: str) -> None:
    plain, example = models.make("blocks"), models.make("blocks")
    _fit(example, run=run)
    for one in (plain, example):
        torch.manual_seed(1)
        first, second = loss_of(one.forward()), loss_of(one.forward())
        second.backward()
        first.backward()
    for a, b in zip(plain.model.parameters(), example.model.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)  # type: ignore[arg-type]


def test_a_second_backward_says_what_to_do() -> None:
    example = models.make("blocks")
    _fit(example, run="stowage")
    loss = loss_of(example.forward())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"stowage\.unfit"):
        loss.backward()


@both
def test_a_forward_without_a_backward_leaves_nothing(run: str) -> None:
    example = models.make("blocks")
    fitted = _fit(example, run=run)
    others = _calls_and_passes()  # of tests that have failed
    for _ in range(3):
        example.forward()
    gc.collect()
    assert _calls_and_passes() <= others
    assert fitted.coordinator is not None


@both
def test_a_fitted_model_holds_neither_sample_nor_optimizer(run: str) -> None:
    example = models.make("blocks")
    optimizer = torch.optim.SGD(example.model.parameters(), lr=0.1)
    sample = torch.randn(8, 16)
    model = example.model
    _fit(Example(model, sample), run=run, optimizer=optimizer, loss=lambda o: loss_of(o[:, :3]))
    dead = weakref.ref(optimizer), weakref.ref(sample)
    del optimizer, sample
    gc.collect()
    assert [one() is None for one in dead] == [True, True]


def _calls_and_passes() -> set[int]:
    kinds = (Pass, CallAlone)
    return {id(thing) for thing in gc.get_objects() if issubclass(type(thing), kinds)}


def _bytes_in_use() -> int:
    """Of the process, or of the GPU."""
    if DEVICE.type == "cuda":
        return torch.cuda.memory_allocated(DEVICE)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@both
def test_no_memory_grows_over_a_thousand_steps(run: str) -> None:
    # A value is 64 KiB: one that was left in each step would be 64 MiB.
    example = Example(models.blocks(length=4, width=64).model, torch.randn(256, 64))
    _fit(example, run=run)
    for _ in range(50):
        loss_of(example.forward()).backward()
    gc.collect()
    gc.disable()
    try:
        tensors = sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())
        before = _bytes_in_use()
        for _ in range(1000):
            loss_of(example.forward()).backward()
        assert sum(issubclass(type(thing), Tensor) for thing in gc.get_objects()) <= tensors
        assert _bytes_in_use() < before + (16 << 20)
    finally:
        gc.enable()


@both
def test_compiled_layers(run: str) -> None:
    expected = train(models.make("blocks"))
    example = models.make("blocks")
    for index in range(8):
        example.model[index].compile(backend="eager")
    _fit(example, run=run)
    assert differences(expected, train(example)) == []
    stowage.unfit(example.model)
    assert differences(expected, train_from_start(example)) == []


def train_from_start(example: Example) -> models.Trained:
    example.model.load_state_dict(models.make("blocks").model.state_dict())
    example.model.zero_grad()
    return train(example)


@both
def test_a_value_changed_in_place_is_refused(run: str) -> None:
    class Changes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(models.Block(16) for _ in range(6))
            self.changes = False

        def forward(self, value: Tensor) -> Tensor:
            kept = [value]  # which is read again under every schedule
            for index, layer in enumerate(self.layers):
                value = layer(value)
                kept.append(value)
                if index == 4 and self.changes:
                    with torch.no_grad():
                        for early in kept[:4]:
                            early.add_(1.0)
            return value

    model = Changes()
    example = Example(model, torch.randn(8, 16))
    _fit(example, activations="15%", solver="rotor", run=run)
    model.changes = True
    with pytest.raises(RuntimeError, match=r"changed in place|inplace"):
        loss_of(example.forward()).backward()


def test_a_model_that_changes_its_way_is_told() -> None:
    example = models.make("blocks")
    _fit(example, run="stowage")
    with pytest.raises(RuntimeError, match="out of order"):
        example.model[3](torch.randn(8, 16))
    loss_of(example.forward()).backward()


@both
def test_fits_where_plain_training_runs_out_of_memory(run: str) -> None:
    calls = 0

    def loss(output: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:  # the first is of finding the layers, which keeps nothing
            raise torch.OutOfMemoryError("on purpose")
        return loss_of(output)

    example = models.make("blocks")
    fitted = _fit(example, loss=loss, run=run)
    assert fitted.profile.plain_peak_bytes is None
    assert "plain training runs out of memory" in str(fitted)
    assert differences(train(models.make("blocks")), train(example)) == []


def test_a_step_that_takes_more_than_its_budget_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    within = _fit(models.make("blocks"), activations="50%")
    assert "more than its budget" not in str(within)

    def hungry(work: Workload) -> MeteredStep:
        step = metered_step(work)
        return step._replace(peak=within.activations * 11 // 10)

    monkeypatch.setattr("stowage.torch.trial.metered_step", hungry)
    beyond = _fit(models.make("blocks"), activations=within.activations)
    assert f"pass activations={beyond.activations - beyond.activations // 10}" in str(beyond)


@both
def test_buffers_that_layers_write_are_compared_in_the_first_step_alone(
    run: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = models.make("blocks")
    _fit(example, solver="rotor", activations="25%", run=run)
    loss_of(example.forward()).backward()

    def same(one: Tensor, other: Tensor) -> bool:
        assert one is other, "looks at what a GPU has yet to write"
        return True

    monkeypatch.setattr("stowage.torch.tensors.replay.same_content", same)
    loss_of(example.forward()).backward()


def test_report_before_fit() -> None:
    with pytest.raises(stowage.StowageError, match=r"stowage\.fit"):
        stowage.report(nn.Linear(2, 2))


class _Halves(nn.Module):
    """Most of what it holds is before its layers, in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(16, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, value: Tensor) -> Tensor:
        for _ in range(12):
            value = torch.tanh(self.before(value))
        for layer in self.layers:
            value = layer(value)
        return value


def test_what_the_plan_does_not_manage_is_said() -> None:
    model = _Halves()
    fitted = stowage.fit(model, torch.randn(64, 16), activations="20%", verbose=False)
    report = stowage.report(model)
    assert report.managed_share < 0.5
    assert "of what a step holds is outside of these layers, and stays" in str(fitted)
    assert f"{report.managed_share:.0%} of what a plain step holds" in str(report)
    whole = models.make("blocks")
    _fit(whole)
    assert stowage.report(whole.model).managed_share > 0.9


def test_without_strict_a_model_that_cannot_be_fitted_is_left_as_it_is() -> None:
    example = models.make("gpt2")
    with pytest.warns(UserWarning, match="trains as it is, without a plan: no plan fits into"):
        assert _fit(example, activations=100, strict=False) is None
    assert not any("forward" in vars(module) for module in example.model.modules())
    assert differences(train(models.make("gpt2")), train(example)) == []
    with pytest.raises(TypeError, match="nonsense"):
        _fit(example, strict=False, nonsense=True)

"""Code for JAX: its gradients are equal, and it saves what the plan says."""

from __future__ import annotations

import contextlib
import io
import re
from functools import partial

import pytest
from exports import (
    export,
    forwards,
    module_of,
    ways_of,
    with_way,
)
from support import chain_of

import stowage
from stowage import OperationKind, Platform


@pytest.mark.parametrize("memory", ["40%", "80%"])
def test_jax_saves_the_named_values_and_gradients_are_equal(memory):
    import jax
    from jax.ad_checkpoint import print_saved_residuals

    stages = 6
    exported = export("jax", chain_of(stages), memory)
    module = module_of(exported)
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.tanh(value @ weight)

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    named = re.findall(r"named '(\w+)'", printed.getvalue())
    starts = [first for first, _ in module.SEGMENTS]
    assert named == [f"before_{first}" for first in starts]
    # Of a segment nothing else is saved: tanh's outputs are those of the saved stages.
    saved = forwards(exported, stages).count(1)
    residuals = printed.getvalue().count("output of tanh")
    assert saved <= residuals <= saved + 1  # and the last stage's output, which the loss reads
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))
    with pytest.raises(ValueError, match="6 stages, not 1"):
        module.forward([partial(layer, weights[0])], sample)


@pytest.mark.parametrize("memory", ["30%", "50%"])
@pytest.mark.parametrize("once", [False, True])
def test_jax_offloads_what_the_plan_says_and_gradients_are_equal(memory, once):
    import jax
    from jax.ad_checkpoint import print_saved_residuals

    stages = 8
    link = Platform(offload_bytes_per_second=1 << 21)
    answer = stowage.solve(chain_of(stages, no_recompute=once), link, memory=memory)
    exported = stowage.export(answer, "jax")
    operations = exported.exported.schedule.operations
    offloaded = {one.stage for one in operations if one.kind is OperationKind.OFFLOAD}
    module = module_of(exported)
    assert offloaded
    assert {last for _, last, _, host in module.PIECES if host} == offloaded
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.tanh(value @ weight)

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    named = re.findall(r"named '(\w+)'", printed.getvalue())
    starts = [first for first, _, _, _ in module.PIECES]
    assert named == [f"before_{first}" for first in starts if first - 1 not in offloaded]
    # On the device are tanh's outputs of the saved stages that are not offloaded, and no others.
    kept = sum(not again and not host for _, _, again, host in module.PIECES)
    assert printed.getvalue().count("output of tanh") == kept
    assert printed.getvalue().count("<host>") >= len(offloaded)
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))
    with pytest.raises(ValueError, match="8 stages, not 1"):
        module.forward([partial(layer, weights[0])], sample)


@pytest.mark.parametrize("has_link", [False, True])
def test_jax_keeps_the_names_of_a_way_and_gradients_are_equal(has_link):
    import jax
    from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

    stages = 6
    kept = ("wide",)
    chain = with_way(chain_of(stages), 2 << 20, kept=kept)
    slow_link = Platform(memory_bytes=0, offload_bytes_per_second=3e5)
    answer = stowage.solve(chain, slow_link if has_link else None, memory="40%")
    exported = stowage.export(answer, "jax")
    module = module_of(exported)
    in_part = {number: list(kept) for number in ways_of(exported)}
    assert in_part == module.KEPT
    seed = jax.random.key(0)
    weights = [jax.random.normal(jax.random.fold_in(seed, i), (8, 8)) for i in range(stages)]
    sample = jax.random.normal(seed, (4, 8))

    def layer(weight, value):
        return jax.numpy.sin(checkpoint_name(jax.numpy.tanh(value @ weight), "wide"))

    def loss(run, weights, value):
        return (run([partial(layer, weight) for weight in weights], value) ** 2).sum()

    plain, planned = partial(loss, module.run), partial(loss, module.forward)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_saved_residuals(planned, weights, sample)
    assert printed.getvalue().count("named 'wide'") == len(in_part) > 0
    for transform in (lambda function: function, jax.jit):
        pair = [transform(jax.grad(function))(weights, sample) for function in (plain, planned)]
        assert all((a == b).all() for a, b in zip(*pair, strict=True))

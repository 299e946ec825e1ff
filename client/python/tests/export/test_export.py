"""What holds for exports to every target."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from exports import (
    TARGETS,
    export,
    forwards,
)
from support import PROGRAMS, chain_of

import stowage
from stowage import InfeasibleError, InvalidRequestError, Platform


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_is_the_command_lines(target, tmp_path):
    chain = chain_of(9)
    path = tmp_path / "chain.json"
    path.write_text(chain.to_json())
    first, last = (1, 9) if target == "deepspeed" else (2, 8)
    exported = export(target, chain, "60%", layers=(first, last))
    command = [PROGRAMS / "stowage", "export", "--for", target, "--chain", path, "--memory", "60%",
               "--layers", f"{first}:{last}"]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert str(exported) == printed
    others = [*range(1, first), *range(last + 1, 10)]
    assert all(forwards(exported, 9)[stage - 1] == 1 for stage in others)
    assert exported.exported.fits
    assert exported.full is not None
    best = exported.full.prediction.makespan_seconds
    assert exported.exported.prediction.makespan_seconds >= best


@pytest.mark.parametrize("target", TARGETS)
def test_the_comparison_is_simulated(target):
    chain = chain_of(9)
    answer = stowage.solve(chain, Platform(offload_bytes_per_second=1e6), memory="60%")
    exported = stowage.export(answer, target)
    for compared in (exported.full, exported.exported, exported.usual):
        simulated = stowage.simulate(chain, answer.platform, compared.schedule)
        assert simulated.feasible == compared.fits
        for figure in ("makespan_seconds", "peak_memory_bytes"):
            assert getattr(simulated.prediction, figure) == getattr(compared.prediction, figure)
        assert compared.name in exported.text


@pytest.mark.parametrize("target", TARGETS)
def test_a_default_that_is_not_possible_is_none(target):
    chain = chain_of(9)
    once = replace(chain.stages[3], no_recompute=True)
    stages = (*chain.stages[:3], once, *chain.stages[4:])
    exported = export(target, replace(chain, stages=stages), "100%")
    chooses = target in ("pytorch", "jax")  # its user names the stages
    assert (exported.usual is not None) == chooses
    assert ("not possible: stage 4 may run once" in exported.text) != chooses


@pytest.mark.parametrize("target", TARGETS)
def test_a_budget_that_is_too_small_names_one_that_is_enough(target):
    chain = chain_of(9)
    with pytest.raises(InfeasibleError, match="bytes are enough") as error:
        export(target, chain, "1MiB")
    least = error.value.minimum_memory_bytes
    assert stowage.export(stowage.solve(chain, memory=least), target).exported.fits
    with pytest.raises(InfeasibleError):
        stowage.export(stowage.solve(chain, memory=least - 1), target)


def test_layers_are_found_by_their_names():
    layers = [f"model.layers.{i}.{part}" for i in range(3) for part in "ab"]
    parts = ["model.embed", *layers, "head"]
    chain = chain_of(len(parts))
    stages = [replace(stage, name=name) for stage, name in zip(chain.stages, parts, strict=True)]
    named = replace(chain, stages=tuple(stages))
    groups = [f"layer{i}" for i in range(3) for _ in range(2)]
    grouped = replace(
        named,
        stages=(
            stages[0],
            *(replace(s, fusion_group=g) for s, g in zip(stages[1:-1], groups, strict=True)),
            stages[-1],
        ),
    )
    found = export("torchtitan", named, "60%", layers="layers.{n}")
    assert "LAYERS = 3" in found.text
    assert found == export("torchtitan", grouped, "60%", layers=(2, 7))


def test_errors_name_the_argument():
    answer = stowage.solve(chain_of(4), memory="50%")
    for options, field in (
        ({"target": "keras"}, "target"),
        ({"layers": (0, 4)}, "layers"),
        ({"layers": (3, 5)}, "layers"),
        ({"layers": "block.{n}"}, "layers"),
        ({"target": "deepspeed", "layers": (2, 4)}, "layers"),
        ({"working_memory": "much"}, "working_memory"),
    ):
        with pytest.raises(InvalidRequestError) as error:
            stowage.export(answer, **{"target": "jax", **options})
        assert [violation.field for violation in error.value.violations] == [field]
    loaded = stowage.Answer.from_json(answer.to_json())
    with pytest.raises(InvalidRequestError, match="chain: is missing"):
        stowage.export(loaded, "jax")
    assert stowage.export(loaded, "jax", chain=chain_of(4)).exported.fits

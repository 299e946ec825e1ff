"""The experiments at small settings: what must hold between their figures, and their pictures."""

from __future__ import annotations

import importlib
import pathlib

import pytest

EXPERIMENTS = pathlib.Path(__file__).parents[1] / "experiments"
HELPERS = {"block_costs", "common"}
SCRIPTS = sorted({path.stem for path in EXPERIMENTS.glob("*.py")} - HELPERS)
ROUNDING = 3e-3  # of a makespan: what the default memory slots cost at most
NETWORK = "pipedream-resnext50-128-224"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs an experiment, which draws its picture, and returns what it found."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))

    def run(name, *arguments):
        found = importlib.import_module(name).main([*arguments, "--output", str(tmp_path)])
        picture = (tmp_path / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        return found

    return run


def by_solver(results, at):
    """Overheads of the solvers that have a schedule there."""
    found = [one for one in results if one.at == at and one.prediction is not None]
    return {one.solver: one.prediction.overhead for one in found}


@pytest.mark.parametrize("name", SCRIPTS)
def test_documents_name_each_experiment(name):
    assert f"`{name}.py`" in (EXPERIMENTS / "README.md").read_text()


def test_more_memory_helps_rotor_and_auto_is_the_best(run):
    found = run("pofo_by_memory", "--networks", NETWORK, "--alphas", "0.2,0.6")
    scarce, plenty = by_solver(found, 0.2), by_solver(found, 0.6)
    assert plenty["rotor"] < scarce["rotor"]
    assert plenty["auto"] < plenty["rotor"]
    for overheads in (scarce, plenty):
        assert overheads["auto"] == min(overheads.values())


def test_bandwidth_helps_offloading_and_not_rotor(run):
    found = run("pofo_by_bandwidth", "--networks", NETWORK, "--bandwidths", "12,36")
    slow, fast = by_solver(found, 12), by_solver(found, 36)
    assert fast["rotor"] == slow["rotor"]
    assert fast["offload_dynprog"] < slow["offload_dynprog"]
    assert fast["auto"] < slow["auto"]


def test_offloading_is_not_faster_than_its_bound(run):
    ratios = run("offloading_bound", "--networks", NETWORK, "--alphas", "0.3,1")
    assert len(ratios) == 6
    assert min(ratios.values()) >= 1 - 1e-9
    assert max(ratios[NETWORK, 0.3, solver] for _, _, solver in ratios) > 1
    assert ratios[NETWORK, 1, "offload_greedy"] == pytest.approx(1)  # nothing has to leave


def test_a_quarter_of_the_memory_costs_more_than_a_half(run, capsys):
    found = run("memory_reductions", "--networks", NETWORK, "--reductions", "2,4")
    half, quarter = by_solver(found, 2), by_solver(found, 4)
    assert half["rotor"] < quarter["rotor"]
    assert half["auto"] < half["rotor"]
    assert quarter["auto"] < quarter["rotor"]
    cheap = [int(half["auto"] < 0.2), int(quarter["auto"] < 0.2)]
    (counted,) = (line for line in capsys.readouterr().out.splitlines() if "+20%: auto" in line)
    assert [int(count) for count in counted.split()[-2:]] == cheap


def test_rotor_is_not_slower_than_equal_segments(run):
    found = run("equal_segments", "--networks", f"{NETWORK},pipedream-gnmt-32-48")
    assert len(found) == 2
    gains = [one.gain for comparisons in found.values() for one in comparisons]
    assert min(gains) > -ROUNDING
    assert max(gains) > 0.05


def test_settings_of_frameworks_are_not_faster_than_flat_plans(run):
    networks = f"{NETWORK},analytic-gpt2small-8-1024"
    lost, gained = run("framework_settings", "--networks", networks, "--alphas", "0.4")
    assert {len(values) for values in (*lost.values(), *gained.values())} == {2}
    for setting in ("uniform", "block", "every_nth"):
        for flat, loss in zip(lost["40%", "flat"], lost["40%", setting], strict=True):
            assert loss is None or loss > flat - 1e-9
    for what in ("every layer", "every second layer"):
        assert all(gain > -ROUNDING for gain in gained[what, "auto"])
        assert max(gained[what, "flat"]) > 0.05


def test_each_field_of_a_chain_makes_it_no_slower(run):
    network = "analytic-gpt2small-8-1024"
    arguments = ("--networks", network, "--alphas", "0.4", "--without-experts")
    found = run("partial_saving", *arguments)
    excesses = [found[network, 0.4, "no link", model] for model in ("as it is", "save_options")]
    assert 0 < excesses[1] < excesses[0]
    for (_, _, link, _), excess in found.items():
        assert excess < found[network, 0.4, link, "as it is"] + ROUNDING


def test_more_memory_never_makes_auto_slower_without_a_link(run):
    (sweep,) = run("more_memory", "--networks", NETWORK, "--links", "0", "--points", "8")
    assert len(sweep.seconds) > 4
    assert sweep.up == 0
    assert sweep.seconds[-1] < sweep.seconds[0]


def test_a_network_that_no_profile_has_is_named(run):
    with pytest.raises(SystemExit, match=r"--networks: no profile .* is called no-such"):
        run("equal_segments", "--networks", "no-such")

"""The examples run as their users start them, and the comparison with peers on a small model."""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import subprocess
import sys

import pytest

_PYTHON = pathlib.Path(__file__).parents[3]
_EXAMPLES = _PYTHON / "examples"


def _run(folder: pathlib.Path, program: pathlib.Path, *arguments: str) -> str:
    """What the program prints. It runs in `folder`."""
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=folder,
        # A process that dies of a signal tells where it was.
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "last_layer"),
    [
        ("resnet.py", ["--batch=2", "--size=32"], "avgpool"),
        ("decoder.py", ["--layers=4", "--tokens=64"], "model.layers.3"),
        ("ddp.py", ["--layers=4", "--batch=64"], "4"),
        ("fsdp.py", ["--layers=4", "--tokens=48"], "model.layers.3"),
        ("trainer.py", ["--layers=4", "--tokens=48"], "model.layers.3"),
        ("lightning_trainer.py", ["--layers=4", "--batch=64"], "4"),
    ],
)
def test_trains_and_reports(
    name: str, arguments: list[str], last_layer: str, tmp_path: pathlib.Path
) -> None:
    lines = _run(tmp_path, _EXAMPLES / name, *arguments, "--steps=2").splitlines()
    # Trainers print lines of their own before.
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith("step 0")) :]
    assert [line.split(":")[0] for line in lines[:2]] == ["step 0", "step 1"]
    assert lines[2].split() == ["predicted", "measured", "plain"]
    assert last_layer in [line.split()[0] for line in lines]


_TRAINING = ("resnet", "decoder", "ddp", "fsdp", "trainer", "lightning_trainer")


@pytest.mark.parametrize("name", [f"{name}.py" for name in _TRAINING])
def test_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(_EXAMPLES / name), run_name="__main__")
    assert not ended.value.code
    assert "--activations" in capsys.readouterr().out


def test_peers_are_compared_on_a_small_model(tmp_path: pathlib.Path) -> None:
    program = _PYTHON / "benchmark" / "peers_on_gpu.py"
    model = "--model=llama:every layer|as much|70 %"
    printed = _run(
        tmp_path, program, "--device=cpu", "--tiny", model, "--seconds=3600", "--row-seconds=0",
        "--json=rows.json",
    )  # fmt: skip
    rows = {row["row"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    for label in ("`checkpoint` on every layer", "Stowage, 70 %, without"):
        assert label in printed
        assert 0 < rows[label]["peak_bytes"] < rows["plain"]["peak_bytes"]
    assert rows["Stowage, 70 %, without"]["recomputed"] > 0

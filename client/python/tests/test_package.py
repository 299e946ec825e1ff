"""The wheel: what it needs, where it runs, and what imports cost."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile
from typing import Any

import pytest
from support import PROGRAMS, REPOSITORY

import stowage

LIGHT = """
import sys
import stowage
chain = stowage.Chain(input_bytes=8, stages=(stowage.Stage(output_bytes=8, saved_bytes=8),) * 4)
answer = stowage.solve(chain, memory="50%")
assert answer.feasible, answer
assert stowage.plan(chain, memory="50%").source == "local solve"
print(*sorted(name for name in ("torch", "grpc", "google.protobuf", "numpy", "matplotlib", "rich")
              if name in sys.modules))
"""


def test_importing_and_solving_imports_no_other_library():
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_every_public_name_is_there_and_documented():
    for name in stowage.__all__:
        if name in ("fit", "unfit", "report"):  # need PyTorch; have tests of their own
            continue
        value = getattr(stowage, name)
        assert getattr(value, "__doc__", None) or name == "PlanSource", name
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        _ = stowage.unknown


def test_the_version_is_that_of_the_programs():
    version = subprocess.run(
        [PROGRAMS / "stowage", "--version"], capture_output=True, text=True, check=True
    )
    assert stowage.__version__ in version.stdout


@pytest.fixture(scope="session")
def wheel() -> pathlib.Path:
    """That of deploy/wheel.sh, which deploy/python.sh passes."""
    path = os.environ.get("STOWAGE_WHEEL")
    if path is not None:
        return pathlib.Path(path)
    built = sorted((REPOSITORY / "client/python/dist").glob("*.whl"))
    assert built, "run deploy/wheel.sh"
    return built[-1]


def test_there_is_one_wheel_for_every_python(wheel):
    assert "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "stowage/libstowage.so" in names
    assert not [name for name in names if "cpython" in name or name.endswith(".pyi")]


def test_the_wheel_says_on_which_systems_it_runs(wheel):
    glibc = re.search(r"manylinux_2_(\d+)_x86_64", wheel.name)
    assert glibc is not None, wheel.name
    assert int(glibc.group(1)) <= 35, "Ubuntu 22.04 has glibc 2.35"
    names = zipfile.ZipFile(wheel).namelist()
    assert "stowage/py.typed" in names
    assert "stowage/_proto/descriptors.binpb" in names
    assert not [name for name in names if "/tests/" in name or "protobuf" in name]


def test_the_wheel_has_the_licences_of_the_libraries_in_it(wheel):
    files = zipfile.ZipFile(wheel)
    names = [name for name in files.namelist() if not name.endswith("/")]
    libraries = {
        re.match("[a-z]+", name.split(".libs/")[1])[0] for name in names if ".libs/" in name
    }
    assert libraries == {"libabsl", "libhwy"}
    licences = {
        pathlib.PurePath(name).name: files.read(name).decode()
        for name in names
        if ".dist-info/licenses/" in name
    }
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    assert all(name in files.read(record).decode() for name in licences)
    assert "TERMS AND CONDITIONS" in licences["Apache-2.0.txt"]
    for library in libraries:
        texts = [text for name, text in licences.items() if name.startswith(library)]
        assert texts, f"{library} is not among {sorted(licences)}"
        assert all("Apache License" in text for text in texts)


LIBRARY = pathlib.Path(stowage.__file__).with_name("libstowage.so")


def test_the_library_shows_nothing_but_the_c_interface():
    """Other libraries of the process have their own Abseil."""
    run = subprocess.run(
        ["nm", "--dynamic", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    shown = {line.split()[-1] for line in run.stdout.splitlines()}
    header = (REPOSITORY / "client/c/stowage.h").read_text()
    assert shown == set(re.findall(r"^STOWAGE_API .*?(stowage_\w+)\(", header, re.M))


@pytest.mark.parametrize("first", [("grpc", "torch"), ("stowage",)])
def test_it_works_beside_other_libraries_in_any_order(first):
    imports = [*first, *({"grpc", "torch", "stowage"} - {*first})]
    script = "\n".join(f"import {name}" for name in imports) + (
        "\nchannel = grpc.insecure_channel('127.0.0.1:1')\nassert torch.ones(2).sum() == 2\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script + LIGHT], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_the_example_in_lua_prints_a_schedule():
    program = REPOSITORY / "client/examples/solve_in_lua.lua"

    def events(memory: str) -> list[dict[str, Any]]:
        run = subprocess.run(
            ["luajit", program, LIBRARY, memory], capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in run.stdout.splitlines()]

    answer = stowage.Answer.from_dict(events("20971520")[-1]["result"])
    assert answer.feasible
    (error,) = events("-1")
    (violation,) = error["error"]["violations"]
    assert violation["field"] == "platform.memory_bytes"


def test_the_examples_in_c_and_lua_run_as_their_document_says(tmp_path):
    document = (REPOSITORY / "client/examples/README.md").read_text()
    section = document[document.index("### C and Lua\n") :]
    commands = section.split("```sh\n")[1].split("```")[0].replace("build/", f"{tmp_path}/")
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    results = [line for line in run.stdout.splitlines() if line.startswith('{"result":')]
    assert len(results) == 3  # in C the budget first
    for line in results[1:]:
        assert stowage.Answer.from_dict(json.loads(line)["result"]).feasible


def test_there_is_no_source_distribution(tmp_path):
    """It would lack the solvers."""
    script = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY / "client/python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "deploy/wheel.sh" in run.stdout + run.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_works_in_a_clean_venv(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True)
    environment = {"PATH": "/usr/bin:/bin"}
    run = subprocess.run(
        [python, "-c", LIGHT], capture_output=True, text=True, check=False, env=environment
    )
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr
    # What needs an extra says which.
    extras = {"stowage.Client()": "client", "answer.plot()": "plot"}
    for code, extra in extras.items():
        script = LIGHT + f"\n{code}"
        run = subprocess.run(
            [python, "-c", script], capture_output=True, text=True, check=False, env=environment
        )
        assert f"pip install 'stowage-planner[{extra}]'" in run.stderr, run.stderr
    # The planner does without what asks servers.
    script = LIGHT + '\nprint(stowage.plan(chain, memory="50%", server="a:1").notes)'
    run = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert "stowage-planner[client]" in run.stdout

"""The tutorials of deploy/docs run as they stand, and print what they say.

A fenced block of `python` or `sh` is run, unless "not run" follows the language; all of one
language run in one process, in a folder with the repository's `tests`. A block of `text` is the
output of the block before it: `…` stands for any text, and on a line of its own for any lines;
the time after "solved in" may differ. Of a block of `text first words` only the first word of each
line is compared.
"""

from __future__ import annotations

import doctest
import inspect
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support import PROGRAMS, REPOSITORY

import stowage

_TUTORIALS = sorted((REPOSITORY / "deploy/docs").glob("[0-9]-*.md"))
_MOST_WORDS = 1500
_SECONDS = 120  # then a tutorial hangs

# Reads names of files, and runs each in one namespace. Stops with the first error.
_PYTHON = """
import sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    with open(line.strip()) as file:
        exec(compile(file.read(), line.strip(), "exec"), names)
    print("\\n" + sys.argv[1], flush=True)
"""
_END = "the end of a block"


@dataclass(frozen=True)
class _Block:
    line: int
    language: str
    mark: str
    text: str


def _blocks(document: str) -> Iterator[_Block]:
    for fence in re.finditer(r"^```(\w+) ?(.*)\n((?s:.*?))^```$", document, re.M):
        line = document.count("\n", 0, fence.start()) + 1
        yield _Block(line, fence[1], fence[2], fence[3])


class _Interpreter:
    """A process that runs blocks of one language. It ends with all that it has started, also where
    the tests are killed.
    """

    def __init__(self, command: list[str], run: str, folder: pathlib.Path) -> None:
        self._run = run
        self._folder = folder
        self._process = subprocess.Popen(
            ["timeout", "--signal=KILL", str(_SECONDS), *command],
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{PROGRAMS.resolve()}:{os.environ['PATH']}",
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, block: _Block) -> list[str]:
        """The lines that it prints."""
        name = f"line-{block.line}"
        (self._folder / name).write_text(block.text)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._run.format(name=name) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == _END:
                return lines[:-1] if lines[-1] == "" else lines
            lines.append(line.rstrip("\n"))
        return pytest.fail(f"the block of line {block.line} failed:\n" + "\n".join(lines))

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def interpreters(tmp_path: pathlib.Path) -> Iterator[dict[str, _Interpreter]]:
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    shell = f". ./{{name}} </dev/null; printf '\\n%s\\n' '{_END}'"
    started = {
        "python": _Interpreter([sys.executable, "-u", "-c", _PYTHON, _END], "{name}", tmp_path),
        "sh": _Interpreter(["bash"], f"set -euo pipefail; {shell}", tmp_path),
    }
    yield started
    for one in started.values():
        one.end()


def _with_own_addresses(document: str) -> str:
    """The document with another of this machine's addresses, which nobody else uses, and with
    ports that are free there.
    """
    host = ".".join(["127", *(str(random.randint(1, 250)) for _ in range(3))])
    with socket.create_server((host, 0)) as one, socket.create_server((host, 0)) as two:
        for port, own in ((50051, one), (50052, two)):
            document = document.replace(f"127.0.0.1:{port}", f"{host}:{own.getsockname()[1]}")
    assert "127.0.0.1:50" not in document
    return document


def _pattern(line: str) -> str:
    """What matches the line, as `_comparable` has it."""
    return ".*".join(re.escape(part) for part in _comparable(line).split("…"))


def _comparable(line: str) -> str:
    """The line without the time of a solve, and with one space between words."""
    return " ".join(re.sub(r"solved in [\d.]+ \w+", "solved in TIME", line).split())


def _first_words(lines: list[str]) -> list[list[str]]:
    return [line.split()[:1] for line in lines]


def _check(expected: _Block, printed: list[str], where: str) -> None:
    """That a block of text has what was printed."""
    wanted = expected.text.splitlines()
    if expected.mark == "first words":
        assert _first_words(printed) == _first_words(wanted), where + "\n" + "\n".join(printed)
        return
    assert expected.mark == "", where
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else _pattern(line) + r"\n" for line in wanted
    )
    found = "".join(_comparable(line) + "\n" for line in printed)
    assert re.fullmatch(pattern, found), f"{where} says\n{expected.text}\nand not\n" + "\n".join(
        printed
    )


@pytest.mark.parametrize("tutorial", _TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial: pathlib.Path, interpreters: dict[str, _Interpreter]) -> None:
    printed: list[str] | None = None
    ran = 0
    for block in _blocks(_with_own_addresses(tutorial.read_text())):
        where = f"{tutorial.name}:{block.line}"
        if block.language == "text":
            assert printed is not None, f"{where}: no block that runs is before it"
            _check(block, printed, where)
            printed = None
        elif block.mark != "not run":
            assert block.mark == "", where
            printed = interpreters[block.language].run(block)
            ran += 1
    assert ran > 0


def test_there_are_three_tutorials() -> None:
    assert [path.name[:2] for path in _TUTORIALS] == ["1-", "2-", "3-"]


@pytest.mark.parametrize("tutorial", _TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_short(tutorial: pathlib.Path) -> None:
    assert len(tutorial.read_text().split()) <= _MOST_WORDS


def test_the_last_tutorial_names_every_alert() -> None:
    rules = REPOSITORY / "deploy/prometheus"
    alerts = (rules / "alerts.yml").read_text() + (rules / "objectives.yml").read_text()
    named = re.findall(r"\bStowage[A-Z]\w+", _TUTORIALS[-1].read_text())
    assert sorted(named) == sorted(re.findall(r"alert: (\w+)", alerts))


def test_examples_in_docstrings() -> None:
    """Of all that deploy/docs.sh shows."""
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for name in stowage.__all__:
        value = getattr(stowage, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            for example in finder.find(value, f"stowage.{name}", globs={"stowage": stowage}):
                runner.run(example)
    assert runner.tries > 0
    assert runner.summarize(verbose=False).failed == 0

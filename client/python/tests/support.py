"""What the tests share: profiles, chains, the C++ programs, servers on free ports."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from stowage import Chain, Stage

REPOSITORY = pathlib.Path(__file__).parents[3]
PROGRAMS = pathlib.Path(os.environ.get("STOWAGE_PROGRAMS", REPOSITORY / "build/dev/bin"))
DATA = REPOSITORY / "tests/data"
PROFILES = [
    path
    for folder in (".", "modes", "suspicious")
    for path in sorted((DATA / folder).glob("*.json"))
]


def rule_cases(name: str) -> list[dict[str, Any]]:
    """The cases of tests/data/rules, which the tests of C++ read, too."""
    cases = json.loads((DATA / f"rules/{name}.json").read_text())["cases"]
    assert cases
    return cases


def profile(name: str) -> Chain:
    """A chain of tests/data."""
    return Chain.from_json((DATA / f"{name}.json").read_bytes())


def chain_of(stages: int, **changes: float) -> Chain:
    """A uniform chain: a second and a mebibyte a stage."""
    fields = {
        "forward_seconds": 1.0,
        "backward_seconds": 2.0,
        "output_bytes": 1 << 20,
        "saved_bytes": 3 << 20,
    }
    stage = {**fields, **changes}
    return Chain(
        name="uniform",
        input_bytes=1 << 20,
        stages=tuple(Stage.from_dict({"name": f"layer{i}", **stage}) for i in range(stages)),
    )


def slow_chain(stages: int = 1200) -> Chain:
    """A chain whose stages all differ: rotor takes seconds for it with many slots."""
    return Chain(
        name="slow",
        input_bytes=1 << 20,
        stages=tuple(
            Stage(
                forward_seconds=1 + 0.37 * (i * 7919 % 101),
                backward_seconds=2 + 0.41 * (i * 104729 % 89),
                output_bytes=(1 << 20) + 4096 * (i * 31 % 127),
                saved_bytes=(3 << 20) + 4096 * (i * 17 % 113),
            )
            for i in range(stages)
        ),
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


class Server:
    """A stowage-server of this repository, on a free port of 127.0.0.1 unless told otherwise."""

    def __init__(self, *options: str, address: str = "127.0.0.1:0") -> None:
        self._log = tempfile.NamedTemporaryFile("r", prefix="stowage-server-")  # noqa: SIM115
        program = str(PROGRAMS / "stowage-server")
        own = ("--listen", address, "--http", "none", "--cache-dir", "none", "--lame-duck", "0s")
        with open(self._log.name, "w") as log:
            self.process = subprocess.Popen([program, *own, *options], stdout=log, stderr=log)
        wait_until(lambda: self._serving() is not None or self.process.poll() is not None)
        serving = self._serving()
        assert serving is not None, self.log()
        self.address = serving

    def log(self) -> str:
        return pathlib.Path(self._log.name).read_text()

    def _serving(self) -> str | None:
        found = re.search(r"event=serving address=(\S+)", self.log())
        return found.group(1) if found else None

    def kill(self) -> None:
        """As a machine that loses power."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()


StartServer = Callable[..., Server]


def cli(*arguments: object) -> str:
    """What the command line prints for a command that succeeds, or that finds nothing feasible."""
    result = subprocess.run(
        [str(PROGRAMS / "stowage"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, 2), result.stderr
    return result.stdout


def without_seconds(json: str) -> str:
    """JSON of an answer without what depends on the machine's speed."""
    return re.sub(r'"(solve|queue)_seconds": [0-9.e-]+', r'"\1_seconds": 0', json)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits for something that another process or thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)

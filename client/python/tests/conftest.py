"""Servers as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import Server, StartServer


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts servers that end with the test."""
    started: list[Server] = []

    def start(*options: str, address: str = "127.0.0.1:0") -> Server:
        started.append(Server(*options, address=address))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the tests of a file that do not change it."""
    one = Server()
    yield one
    one.stop()

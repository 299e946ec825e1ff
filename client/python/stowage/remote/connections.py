"""The servers of a client, and a connection to each."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from stowage.errors import StowageError, invalid
from stowage.remote.connection import CONNECT_SECONDS, Connection
from stowage.remote.credentials import Credentials


def addresses(servers: str | Sequence[str]) -> tuple[str, ...]:
    """Each address of "one:50051,two:50051" or of a sequence."""
    parts = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise invalid("servers", f"is {servers!r}, not an address or a list of them")
    names = tuple(part.strip() for part in parts)
    if not names or not all(names):
        raise invalid("servers", 'is empty; give an address, as in "127.0.0.1:50051"')
    for name in names:
        port = name.rpartition(":")[2]
        if not name.startswith("unix:") and not (port.isdecimal() and 0 < int(port) < 65536):
            raise invalid("servers", f"{name!r} is not host:port or unix:PATH")
    return names


class Connections:
    """One to each server, made when it is first needed. Thread-safe."""

    def __init__(
        self, servers: Sequence[str], credentials: Credentials, timeout: float | None
    ) -> None:
        self._servers = servers
        self._credentials = credentials
        self._connect_seconds = _connect_seconds(len(servers), timeout)
        self._lock = threading.Lock()
        self._made: dict[int, Connection] = {}
        self._closed = False

    def __getitem__(self, server: int) -> Connection:
        with self._lock:
            if self._closed:
                raise StowageError("this client is closed; make another one")
            if server not in self._made:
                self._made[server] = Connection(
                    self._servers[server], self._credentials, self._connect_seconds
                )
            return self._made[server]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            made, self._made = self._made, {}
        for connection in made.values():
            connection.close()


def _connect_seconds(servers: int, timeout: float | None) -> float:
    """A server that does not even refuse a connection leaves time for the others."""
    if servers == 1:
        return CONNECT_SECONDS
    return 2.0 if timeout is None else min(2.0, timeout / (servers + 1))

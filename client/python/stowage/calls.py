"""What calls of the library have in common: how they end, and what they are asked with."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from stowage.errors import CancelledError, FieldViolation, InvalidRequestError, invalid
from stowage.serialization.message import Message

_MAX_EXIT_SECONDS = 3.0


class _Calls:
    """The calls in progress, which end before the interpreter does.

    The threads of a call that a daemon thread has made would still work while the process destroys
    what they use.
    """

    def __init__(self) -> None:
        self._running: set[object] = set()
        self._ended = False
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._running.clear)  # their threads are the parent's

    @contextlib.contextmanager
    def call(self, cancel: threading.Event | None) -> Iterator[Callable[[], bool]]:
        """Of one call: yields what tells whether it is cancelled."""
        call = object()
        self._running.add(call)  # before it looks whether calls have ended: _end() may run between
        try:
            if self._ended:
                raise CancelledError("the call was cancelled: Python exits")
            yield lambda: self._ended or (cancel is not None and cancel.is_set())
        finally:
            self._running.discard(call)

    def _end(self) -> None:
        self._ended = True
        # Takes 100 ms. A callback that blocks is in Python's own code, which may be left there.
        end = time.monotonic() + _MAX_EXIT_SECONDS
        while self._running and time.monotonic() < end:
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C
                time.sleep(0.001)


CALLS = _Calls()


def plain(**parts: tuple[object, type[Message]]) -> dict[str, Any]:
    """The messages of a request, each with its class, as JSON. Raises with all that is wrong."""
    values: dict[str, Any] = {}
    violations: list[FieldViolation] = []
    for field, (message, wanted) in parts.items():
        if not isinstance(message, wanted):
            raise invalid(field, f"is a {type(message).__name__}, not a {wanted.__name__}")
        try:
            values[field] = message.to_dict()
        except InvalidRequestError as error:
            violations += error.violations
    if violations:
        raise InvalidRequestError("; ".join(map(str, violations)), violations)
    return values

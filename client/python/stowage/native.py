"""The solvers: the C interface of client/c/stowage.h, loaded by ctypes.

Requests are dicts of JSON with the API's fields, as `Message.to_dict` gives; so are results.
Public functions are in `stowage.local`.
"""

from __future__ import annotations

import ctypes
import json
import math
import operator
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from stowage.errors import CancelledError, StowageError, from_status

_POLL_MILLISECONDS = 20  # with the 50 ms in which a solver stops, Ctrl-C takes less than 100 ms


class _Call(ctypes.c_void_p):
    """A call, which ends at the latest when this goes: a signal may raise as soon as it is made."""

    def free(self) -> None:
        handle, self.value = self.value, None
        _free(handle)

    __del__ = free


_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libstowage.so")))


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, f"stowage_{name}")
    function.restype, function.argtypes = result, arguments
    return function


_TEXT = (ctypes.c_char_p, ctypes.c_size_t)
_next = _function("next", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)
_cancel = _function("cancel", None, ctypes.c_void_p)
_free = _function("free", None, ctypes.c_void_p)
_has_ended = _function("has_ended", ctypes.c_int, ctypes.c_void_p)
_check_json = _function("check_json", _Call, ctypes.c_char_p, *_TEXT)
_print_json = _function("print_json", _Call, *_TEXT)
_fnv1a = _function("fnv1a", ctypes.c_uint64, *_TEXT)
_CALLS = ("solve", "frontier", "simulate", "export", "reuse", "ways", "memory", "units", "catalog")
_FUNCTIONS = {name: _function(name, _Call, *_TEXT) for name in _CALLS}


def call(
    name: str,
    request: Mapping[str, Any],
    *,
    cancelled: Callable[[], bool] | None = None,
    events: Mapping[str, Callable[[Any], object]] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Calls a function of the library, and looks for signals while it works.

    Args:
        name: Of the function, without "stowage_".
        request: What it takes.
        cancelled: Called every 20 ms; ends the call once it is true.
        events: What is called with the value of an event, by the event's name.
        names: Fields of the request that errors name otherwise: as the caller's arguments.
    Raises:
        CancelledError: `cancelled` was true.
        StowageError: That of `from_status` for what the library says.
        BaseException: What `cancelled`, one of `events` or a signal raises; the call has ended.
    """
    text = _encoded({name: _without_provenance(value) for name, value in request.items()})
    return _result(_FUNCTIONS[name](text, len(text)), cancelled, events or {}, names or {})


def check_json(root: str, text: bytes) -> None:
    """Raises InvalidRequestError where a text, which the error calls `root`, is no JSON object that
    Stowage reads: it names the field, and line and column."""
    _result(_check_json(root.encode(), text, len(text)), None, {}, {})


def print_json(values: Mapping[str, Any]) -> str:
    """The text of JSON, its members in their order, as the command line prints it."""
    text = _encoded({"json": values})
    return str(_result(_print_json(text, len(text)), None, {}, {})["text"])


def _result(
    call: _Call,
    cancelled: Callable[[], bool] | None,
    events: Mapping[str, Callable[[Any], object]],
    names: Mapping[str, str],
) -> dict[str, Any]:
    if call.value is None:
        raise MemoryError("the library of Stowage cannot start a call: memory is exhausted")
    try:
        is_cancelled = False
        while True:
            event = _next(call, _POLL_MILLISECONDS)
            if not is_cancelled and cancelled is not None and cancelled():
                is_cancelled = True
                _cancel(call)
            if event is None:
                if _has_ended(call):  # without memory for its last event
                    raise MemoryError("the library of Stowage has too little memory to answer")
                continue
            ((kind, value),) = json.loads(event).items()
            if is_cancelled and kind in ("result", "error"):
                raise CancelledError("the call was cancelled")
            if kind == "result":
                return dict(value)
            if kind == "error":
                raise _error(value, names)
            if not is_cancelled and kind in events:
                events[kind](value)
    finally:
        call.free()  # ends what has not ended


def _error(values: dict[str, Any], names: Mapping[str, str]) -> StowageError:
    fields = [(one["field"], one["problem"]) for one in values.get("violations", ())]
    message = values["message"]
    if not names.keys().isdisjoint(field for field, _ in fields):
        fields = [(names.get(field, field), problem) for field, problem in fields]
        message = "; ".join(f"{field}: {problem}" for field, problem in fields)
    return from_status(values["code"], message, fields)


def format_bytes(size: int) -> str:
    """As "4.00 GiB"."""
    return str(call("units", {"bytes": operator.index(size)})["text"])


def format_seconds(seconds: float) -> str:
    """As "25.0 ms"."""
    return str(call("units", {"seconds": float(seconds)})["text"])


def fnv1a(content: bytes) -> int:
    """The 64-bit hash."""
    return int(_fnv1a(content, len(content)))


def _encoded(request: Mapping[str, Any]) -> bytes:
    try:
        text = _json(request)
    except ValueError:
        text = _json(_finite(request))
    # Half a surrogate pair, which no text that was checked has, is refused as no Unicode.
    return text.encode("utf-8", "surrogatepass")


def _without_provenance(part: Any) -> Any:
    """Of a chain, or of a request that has one: no solver reads it, and it may hold anything."""
    if not isinstance(part, dict):
        return part
    kept = {name: value for name, value in part.items() if name != "provenance"}
    return {**kept, "chain": _without_provenance(kept["chain"])} if "chain" in kept else kept


def _json(value: Any) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_of_other_class
    )


def _of_other_class(value: object) -> dict[str, str]:
    """An object where none is expected: the library names the field."""
    return {"type": type(value).__name__}


def _finite(value: Any) -> Any:
    """With the names that JSON of the API has for numbers that JSON lacks, and without ints that
    `json` does not write."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an int of {value.bit_length()} bits"  # of any number of digits
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value

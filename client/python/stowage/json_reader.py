"""Reads the JSON of a message as proto/convert's FromJson does, with the same errors."""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from stowage.codec import FieldSpec, Kind, Message, has_half_pair, spec_of, specs_by_name
from stowage.errors import InvalidRequestError, invalid

M = TypeVar("M", bound=Message)

_MAX_LEVELS = 32
# Byte order marks of what editors and shells of Windows write; UTF-16's begins UTF-32's.
_OTHER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_WHOLE = re.compile(r"-?[0-9]+")
# What C's strtod reads; it also accepts "inf" and "nan" in any case.
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE
)


def parse(message: type[M], text: str | bytes) -> M:
    """Reads a text.

    Raises:
        InvalidRequestError: Names the field, or the line and column where it is not JSON.
    """
    root = message.root
    for mark, encoding in _OTHER_MARKS.items():
        if isinstance(text, bytes) and text.startswith(mark):
            raise invalid(root, f"is {encoding}; convert it to UTF-8")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        values = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise invalid(root, f"{place}: not JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise invalid(root, f"not JSON: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise invalid(root, "is nested too deep") from None
    except ValueError:  # an int of more digits than Python reads
        raise invalid(root, "has a number of thousands of digits") from None
    if not isinstance(values, _Pairs):
        what = "an array, not" if isinstance(values, list) else "not"
        raise invalid(root, f"is {what} a JSON object")
    return read(message, _merged(values, root, 1), root)


def read(message: type[M], values: Mapping[str, Any], path: str) -> M:
    """Reads a message from a mapping. Errors as `parse`, below `path`."""
    if not isinstance(values, Mapping):
        raise invalid(path, f"{_show(values)} is not an object of type {message.__name__}")
    names = specs_by_name(message)
    fields: dict[str, Any] = {}
    for key, value in values.items():
        spec = names.get(key)
        if spec is None:
            raise invalid(f"{path}.{key}", "unknown field")
        if value is not None:
            fields[spec.name] = _value(spec, value, path)
    for spec in spec_of(message):
        if spec.required and spec.name not in fields:
            raise invalid(f"{path}.{spec.name}", f"is missing; {_wanted(spec)}")
    return message(**fields)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before it is known that no key is given twice."""


def _merged(value: Any, path: str, level: int) -> Any:
    """Objects as dicts. Raises where a key is given twice or a list has a null."""
    if level > _MAX_LEVELS and isinstance(value, list):
        raise invalid(path, "is nested too deep")
    if isinstance(value, _Pairs):
        merged: dict[str, Any] = {}
        for key, entry in value:
            if key in merged:
                raise invalid(f"{path}.{key}", "is given twice")
            merged[key] = _merged(entry, f"{path}.{key}", level + 1)
        return merged
    if isinstance(value, list):
        free = ".provenance" in path
        for i, entry in enumerate(value):
            if entry is None and not free:
                raise invalid(f"{path}[{i}]", "is null, not an object")
        return [_merged(entry, f"{path}[{i}]", level + 1) for i, entry in enumerate(value)]
    return value


def _value(spec: FieldSpec, value: Any, parent: str) -> Any:
    path = f"{parent}.{spec.name}"
    if not spec.repeated:
        return scalar(spec, value, path)
    if not isinstance(value, (list, tuple)):
        raise invalid(path, f"{_show(value)} is not an array")
    return tuple([scalar(spec, one, f"{path}[{i}]") for i, one in enumerate(value)])


def scalar(spec: FieldSpec, value: Any, path: str) -> Any:
    """Reads one value of a field, which may be repeated."""
    kind = spec.kind
    if kind is Kind.MESSAGE:
        return read(spec.type, value, path)
    if spec.limit:
        return _whole(spec, value, path)
    if kind is Kind.DOUBLE:
        return _number(spec, value, path)
    if kind is Kind.ENUM:
        return _enumerator(spec, value, path)
    if kind is Kind.STRING and isinstance(value, str):
        if has_half_pair(value):
            raise invalid(path, "has half a surrogate pair, which is not Unicode")
        return value
    if kind is Kind.BOOL and (isinstance(value, bool) or value in ("true", "false")):
        return value if isinstance(value, bool) else value == "true"
    if kind is Kind.STRUCT and isinstance(value, Mapping):
        return value
    raise _refused(spec, value, path)


def _whole(spec: FieldSpec, value: Any, path: str) -> int:
    number: int | None = None
    if isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif isinstance(value, str):
        number = int(value) if _WHOLE.fullmatch(value) and len(value) <= 20 else None
    elif not isinstance(value, bool) and hasattr(value, "__index__"):
        number = value.__index__()
    if number is None or not -spec.limit <= number < spec.limit:
        raise _refused(spec, value, path)
    return number


def _number(spec: FieldSpec, value: Any, path: str) -> float:
    is_text = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    if is_text or (hasattr(value, "__float__") and not isinstance(value, bool)):
        try:
            return float(value)
        except OverflowError:  # an int beyond the largest double
            pass
    raise _refused(spec, value, path)


def _enumerator(spec: FieldSpec, value: Any, path: str) -> enum.Enum:
    if isinstance(value, str) and value in spec.members:
        return spec.members[value]
    members: type[enum.Enum] = spec.type
    if isinstance(value, members):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value):
        for member in members:
            if member.value == value:
                return member
    raise _refused(spec, value, path)


def _refused(spec: FieldSpec, value: Any, path: str) -> InvalidRequestError:
    return invalid(path, f"{_show(value)} is not {_names(spec)}")


def _names(spec: FieldSpec) -> str:
    if spec.kind is not Kind.ENUM:
        return str(spec.kind.value)
    return f"one of {', '.join(spec.type.__members__)}"


def _wanted(spec: FieldSpec) -> str:
    if spec.kind is Kind.ENUM:
        return f"set e.g. {next(iter(spec.type.__members__))}"
    return f"set {_names(spec)}"


def _show(value: Any) -> str:
    try:
        text = str(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."

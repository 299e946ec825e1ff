"""Reads the JSON of a message as proto/convert's FromJson does, with the same errors."""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from stowage import native
from stowage.errors import InvalidRequestError, invalid
from stowage.serialization.codec import FieldSpec, Kind, has_half_pair, spec_of, specs_by_name

if TYPE_CHECKING:
    from stowage.serialization.message import Message

M = TypeVar("M", bound="Message")

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
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    native.check_json(message.root, content)
    try:
        values = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise invalid(message.root, f"not JSON: {error}") from None
    except ValueError:  # an int of more digits than Python reads
        raise invalid(message.root, "has a number of thousands of digits") from None
    return read(message, values, message.root)


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

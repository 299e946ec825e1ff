"""Writes the JSON of a message, byte for byte as proto/convert's ToJson."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from stowage.codec import FieldSpec, Kind, Message, shown, spec_of
from stowage.errors import invalid

# What protobuf escapes, since HTML or JavaScript might read it, or nobody sees it.
_ESCAPED = re.compile(
    '["\\\\<>\x00-\x1f\x7f-\x9f\u00ad\u0600-\u0603\u06dd\u070f\u17b4\u17b5\u200b-\u200f\u2028-\u202e'
    "\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0001"
    "\U000e0020-\U000e007f\ud800-\udfff]"
)
_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def write(message: Message) -> str:
    """The JSON of a message, indented by one space a level; ends with a newline."""
    kind = type(message)
    return _object(_members(kind, message.to_dict(), kind.root), "") + "\n"


def double(value: float) -> str:
    """The shorter of 15 and 17 digits that reads back as the same number."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    text = f"{value:.15g}"
    return text if float(text) == value else f"{value:.17g}"


def string(text: str) -> str:
    """In quotes, with protobuf's escapes."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    letter = match.group()
    if letter in _SHORT:
        return _SHORT[letter]
    code = ord(letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _order(message: type[Message]) -> tuple[FieldSpec, ...]:
    """Protobuf writes the scalars that have presence behind all other fields."""
    return tuple(sorted(spec_of(message), key=_has_presence))


def _has_presence(spec: FieldSpec) -> bool:
    return spec.optional and spec.kind not in (Kind.MESSAGE, Kind.STRUCT)


def _members(
    message: type[Message], values: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Any, FieldSpec, str]]:
    for spec in _order(message):
        value = values.get(spec.name)
        if value is not None and not (spec.omit_empty and not value):
            yield spec.name, value, spec, f"{path}.{spec.name}"


def _object(members: Iterator[tuple[str, Any, FieldSpec, str]], indent: str) -> str:
    inner = indent + " "
    parts = [
        f"{inner}{string(name)}: {_value(spec, value, path, inner)}"
        for name, value, spec, path in members
    ]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}" if parts else "{}"


def _value(spec: FieldSpec, value: Any, path: str, indent: str) -> str:
    if not spec.repeated:
        return _one(spec, value, path, indent)
    inner = indent + " "
    parts = [f"{inner}{_one(spec, one, f'{path}[{i}]', inner)}" for i, one in enumerate(value)]
    return "[\n" + ",\n".join(parts) + f"\n{indent}]" if parts else "[]"


def _one(spec: FieldSpec, value: Any, path: str, indent: str) -> str:
    """A value of `Message.to_dict`."""
    if spec.kind is Kind.MESSAGE:
        return _object(_members(spec.type, value, path), indent)
    if spec.kind is Kind.STRUCT:
        return _free(value, path, indent)
    if spec.kind is Kind.BOOL:
        return "true" if value else "false"
    if spec.kind is Kind.DOUBLE:
        return double(value)
    if spec.kind is Kind.INT32:
        return str(value)
    return f'"{value}"' if spec.kind is Kind.INT64 else string(value)


def _free(value: Any, path: str, indent: str) -> str:
    """A google.protobuf.Value, whose numbers are doubles."""
    inner = indent + " "
    if value is None:
        return "null"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return double(float(value))
    if isinstance(value, Mapping):
        parts = [
            f"{inner}{string(str(key))}: {_free(one, f'{path}.{key}', inner)}"
            for key, one in value.items()
        ]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}" if parts else "{}"
    if isinstance(value, (list, tuple)):
        parts = [f"{inner}{_free(one, f'{path}[{i}]', inner)}" for i, one in enumerate(value)]
        return "[\n" + ",\n".join(parts) + f"\n{indent}]" if parts else "[]"
    raise invalid(path, f"{shown(value)} is no value of JSON")

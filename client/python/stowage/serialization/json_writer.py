"""Writes the JSON of a message, byte for byte as proto/convert's ToJson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stowage import native
from stowage.errors import invalid
from stowage.serialization.codec import FieldSpec, Kind, spec_of

if TYPE_CHECKING:
    from stowage.serialization.message import Message


def write(message: Message) -> str:
    """The JSON of a message, indented by one space a level; ends with a newline."""
    kind = type(message)
    return native.print_json(_ordered(kind, message.to_dict(), kind.root))


def _ordered(message: type[Message], values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Protobuf writes the scalars that have presence behind all other fields."""
    ordered: dict[str, Any] = {}
    for spec in sorted(spec_of(message), key=_has_presence):
        value = values.get(spec.name)
        if value is None or (spec.omit_empty and not value):
            continue
        at = f"{path}.{spec.name}"
        ordered[spec.name] = (
            [_one(spec, one, f"{at}[{i}]") for i, one in enumerate(value)]
            if spec.repeated
            else _one(spec, value, at)
        )
    return ordered


def _has_presence(spec: FieldSpec) -> bool:
    return spec.optional and spec.kind not in (Kind.MESSAGE, Kind.STRUCT)


def _one(spec: FieldSpec, value: Any, path: str) -> Any:
    """A value of `Message.to_dict`."""
    if spec.kind is Kind.MESSAGE:
        return _ordered(spec.type, value, path)
    if spec.kind is Kind.STRUCT:
        return _free(value, path)
    return str(value) if spec.kind is Kind.INT64 else value


def _free(value: Any, path: str) -> Any:
    """A google.protobuf.Value, whose numbers are doubles."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): _free(one, f"{path}.{key}") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_free(one, f"{path}[{i}]") for i, one in enumerate(value)]
    raise invalid(path, f"a value of type {type(value).__name__} is no value of JSON")

"""How the fields of the package's classes are written: protobuf's mapping to JSON with snake_case
names, as in proto/convert.

A class is a message of the API: a frozen dataclass whose fields have the message's names. `spec_of`
derives how each is written from its type: `int` is int64, `Int32` int32, `float` double, `X | None`
a field with presence, `tuple[X, ...]` a repeated one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import operator
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from stowage.errors import FieldViolation

if TYPE_CHECKING:
    from stowage.serialization.message import Message

Int32 = Annotated[int, "int32"]
"""An int that is an int32 of the API."""

NOT_WIRE = {"wire": False}
"""Metadata of a field that the API's message does not have."""

OMIT_EMPTY = {"omit_empty": True}
"""Metadata of a repeated field that JSON leaves out where it is empty, as ToJson does."""

Struct = Mapping[str, Any]
"""JSON of any content (google.protobuf.Struct)."""


class Kind(enum.Enum):
    """How a field's value is written."""

    STRING = "a string"
    BOOL = "true or false"
    DOUBLE = "a number"
    INT32 = "a whole number from -2^31 to below 2^31"
    INT64 = "a whole number from -2^63 to below 2^63"
    ENUM = "one of"
    MESSAGE = "an object"
    STRUCT = "an object of any content"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """How a field is written.

    Attributes:
        name: In Python and in JSON.
        camel_name: The other name that JSON may have.
        kind: Of the value, or of each value of a repeated field.
        plain: The type of most values in `Message.to_dict`; None for messages and enumerators.
        type: The class of an enumerator or a message.
        repeated: A tuple.
        optional: May be None: left out of JSON then.
        required: Has no default.
        omit_empty: Left out of JSON where it is empty.
        limit: Of an integer: from -limit to below it. 0 for other kinds.
        members: The enumerators by name.
    """

    name: str
    camel_name: str
    kind: Kind
    plain: type[Any] | None
    type: type[Any]
    repeated: bool
    optional: bool
    required: bool
    omit_empty: bool
    limit: int
    members: Mapping[str, enum.Enum]


_LIMITS = {Kind.INT32: 1 << 31, Kind.INT64: 1 << 63}
_SCALARS = {str: Kind.STRING, bool: Kind.BOOL, float: Kind.DOUBLE, int: Kind.INT64}


_SPECS: dict[type[Message], tuple[FieldSpec, ...]] = {}  # filled by spec_of
_NAMES: dict[type[Message], dict[str, FieldSpec]] = {}  # filled by specs_by_name


def spec_of(message: type[Message]) -> tuple[FieldSpec, ...]:
    """The fields of a message's class, in their order."""
    if message not in _SPECS:
        hints = typing.get_type_hints(message, include_extras=True)
        assert dataclasses.is_dataclass(message)
        fields = [field for field in dataclasses.fields(message) if field.metadata != NOT_WIRE]
        _SPECS[message] = tuple([_spec(field, hints[field.name]) for field in fields])
    return _SPECS[message]


def specs_by_name(message: type[Message]) -> dict[str, FieldSpec]:
    """The same by both names that JSON may have."""
    if message not in _NAMES:
        names = {spec.camel_name: spec for spec in spec_of(message)}
        _NAMES[message] = names | {spec.name: spec for spec in spec_of(message)}
    return _NAMES[message]


def _spec(field: dataclasses.Field[Any], hint: Any) -> FieldSpec:
    optional = repeated = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
        optional = True
    if typing.get_origin(hint) is tuple:
        hint = typing.get_args(hint)[0]
        repeated = True
    kind, value_type = _kind(hint)
    head, *tail = field.name.split("_")
    return FieldSpec(
        name=field.name,
        camel_name=head + "".join(part.capitalize() for part in tail),
        kind=kind,
        type=value_type,
        repeated=repeated,
        optional=optional,
        required=field.default is dataclasses.MISSING,
        omit_empty=field.metadata == OMIT_EMPTY,
        limit=_LIMITS.get(kind, 0),
        plain=value_type if value_type in _SCALARS else None,
        members=dict(value_type.__members__) if kind is Kind.ENUM else {},
    )


def _kind(hint: Any) -> tuple[Kind, type[Any]]:
    if hint == Int32:
        return Kind.INT32, int
    if hint in _SCALARS:
        return _SCALARS[hint], hint
    if typing.get_origin(hint) is not None:
        return Kind.STRUCT, dict
    if issubclass(hint, enum.Enum):
        return Kind.ENUM, hint
    return Kind.MESSAGE, hint


def plain(message: Message, path: str, violations: list[FieldViolation]) -> dict[str, Any]:
    """The fields of `Message.to_dict`, below `path`. Adds what is wrong to `violations`."""
    values: dict[str, Any] = {}
    for spec in spec_of(type(message)):
        value = getattr(message, spec.name)
        if value is None:
            continue
        if not spec.repeated:
            values[spec.name] = _plain_one(spec, value, path, None, violations)
        elif isinstance(value, (list, tuple)):
            values[spec.name] = [
                _plain_one(spec, one, path, i, violations) for i, one in enumerate(value)
            ]
        else:
            violations.append(FieldViolation(f"{path}.{spec.name}", f"{shown(value)} is no tuple"))
    return values


def _plain_one(
    spec: FieldSpec, value: Any, parent: str, index: int | None, violations: list[FieldViolation]
) -> Any:
    """A value of a field, or the one with an index of a repeated field."""
    kind, limit = spec.kind, spec.limit
    # First what nearly all values are, which takes a third of the time.
    if type(value) is spec.plain and (
        kind is Kind.DOUBLE
        or kind is Kind.BOOL
        or (value.isascii() if kind is Kind.STRING else -limit <= value < limit)
    ):
        return value
    if limit and not isinstance(value, bool):
        with contextlib.suppress(TypeError):  # it is no integer
            number = operator.index(value)
            if -limit <= number < limit:
                return number
    path = f"{parent}.{spec.name}" if index is None else f"{parent}.{spec.name}[{index}]"
    if kind is Kind.MESSAGE and isinstance(value, spec.type):
        return plain(value, path, violations)
    if kind is Kind.ENUM and isinstance(value, spec.type):
        return value.name
    if kind is Kind.STRING and isinstance(value, str) and not has_half_pair(value):
        return value
    if kind is Kind.STRUCT and isinstance(value, Mapping):
        return value
    if kind is Kind.DOUBLE and hasattr(value, "__float__") and not isinstance(value, bool):
        # An int beyond the largest double, an array of several numbers, a tensor without any.
        with contextlib.suppress(OverflowError, TypeError, ValueError, RuntimeError):
            return float(value)
    is_named = kind is Kind.MESSAGE or kind is Kind.ENUM
    wanted = f"{kind.value} {spec.type.__name__}" if is_named else kind.value
    violations.append(FieldViolation(path, f"{shown(value)} is not {wanted}"))
    return None


def has_half_pair(text: str) -> bool:
    """Whether it has half a surrogate pair, and so is no Unicode."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def shown(value: object) -> str:
    """A value in an error. Of other classes only their name: their repr may be of any length."""
    kind = type(value)
    if kind not in (int, float, str, bool):
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return f"a value of type {module}{kind.__qualname__}"
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        return "an int of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."

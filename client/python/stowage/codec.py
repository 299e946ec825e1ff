"""JSON of the package's classes: protobuf's mapping with snake_case names, as in proto/convert.

A class is a message of the API: a frozen dataclass whose fields have the message's names. `spec_of`
derives how each is written from its type: `int` is int64, `Int32` int32, `float` double, `X | None`
a field with presence, `tuple[X, ...]` a repeated one.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

Int32 = Annotated[int, "int32"]
"""An int that is an int32 of the API."""

NOT_WIRE = {"wire": False}
"""Metadata of a field that the API's message does not have."""

OMIT_EMPTY = {"omit_empty": True}
"""Metadata of a repeated field that JSON leaves out where it is empty, as ToJson does."""

Struct = Mapping[str, Any]
"""JSON of any content (google.protobuf.Struct)."""

M = TypeVar("M", bound="Message")


class Message:
    """Base of the classes that mirror a message of the API."""

    __slots__ = ()

    root: ClassVar[str] = "message"
    """What errors call it: "chain.stages[3].saved_bytes: …"."""

    def to_json(self) -> str:
        """As the command line prints it: indented, 64-bit integers as strings, and all fields
        that have no presence. Ends with a newline.

        Raises:
            InvalidRequestError: A field has a value of another type.
        """
        from stowage.json_writer import write

        return write(self)

    @classmethod
    def from_json(cls: type[M], text: str | bytes) -> M:
        """Reads JSON: names as here or in lowerCamelCase, 64-bit integers as numbers or strings,
        enumerators by name or number.

        Raises:
            InvalidRequestError: Names the field, as in "chain.stages[3].forward_secnds: unknown
                field".
        """
        from stowage.json_reader import parse

        return parse(cls, text)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings; without fields that are None."""
        return {
            spec.name: _plain(spec, value)
            for spec in spec_of(type(self))
            if (value := getattr(self, spec.name)) is not None
        }

    @classmethod
    def from_dict(cls: type[M], values: Mapping[str, Any]) -> M:
        """Reads what `to_dict` gives, or `json.loads`.

        Raises:
            InvalidRequestError: Names the field.
        """
        from stowage.json_reader import read

        return read(cls, values, cls.root)


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
        type: The class of an enumerator or a message.
        repeated: A tuple.
        optional: May be None: left out of JSON then.
        required: Has no default.
        omit_empty: Left out of JSON where it is empty.
    """

    name: str
    camel_name: str
    kind: Kind
    type: type[Any]
    repeated: bool
    optional: bool
    required: bool
    omit_empty: bool


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


def _plain(spec: FieldSpec, value: Any) -> Any:
    if spec.repeated and isinstance(value, (list, tuple)):
        return [_plain_one(spec.kind, one) for one in value]
    return _plain_one(spec.kind, value)


def _plain_one(kind: Kind, value: Any) -> Any:
    """A value without classes of other libraries: numpy's and torch's numbers count as numbers. A
    value of a wrong type stays; who reads it says so.
    """
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.name
    if type(value) in (int, float, str, bool):
        return value
    if kind in (Kind.INT32, Kind.INT64) and hasattr(value, "__index__"):
        return value.__index__()
    if kind is Kind.DOUBLE and hasattr(value, "__float__"):
        return float(value)
    return value

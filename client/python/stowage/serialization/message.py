"""The base of the classes that mirror a message of the API, with its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from stowage.errors import FieldViolation, InvalidRequestError
from stowage.serialization.codec import plain
from stowage.serialization.json_reader import parse, read
from stowage.serialization.json_writer import write

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
        return write(self)

    @classmethod
    def from_json(cls: type[M], text: str | bytes) -> M:
        """Reads JSON: names as here or in lowerCamelCase, 64-bit integers as numbers or strings,
        enumerators by name or number.

        Raises:
            InvalidRequestError: Names the field, as in "chain.stages[3].forward_secnds: unknown
                field".
        """
        return parse(cls, text)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists, numbers and strings; without fields that are None.
        Numbers of other libraries, such as numpy's, count as numbers.

        Raises:
            InvalidRequestError: Fields have values of another type; names each.
        """
        violations: list[FieldViolation] = []
        values = plain(self, type(self).root, violations)
        if violations:
            raise InvalidRequestError("; ".join(map(str, violations)), violations)
        return values

    @classmethod
    def from_dict(cls: type[M], values: Mapping[str, Any]) -> M:
        """Reads what `to_dict` gives, or `json.loads`.

        Raises:
            InvalidRequestError: Names the field.
        """
        return read(cls, values, cls.root)

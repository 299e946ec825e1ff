"""Messages of the API, for gRPC: classes made from the descriptors that the wheel carries.

Generated stubs would refuse runtimes of protobuf older than their generator, and runtimes two
major versions newer would refuse them. Descriptors work with every runtime. They are in a pool of
their own, so that nothing else in the process can conflict with them.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, TypeVar

from stowage.errors import DataLossError, MissingExtraError
from stowage.serialization.codec import FieldSpec, Kind, spec_of
from stowage.serialization.json_reader import scalar
from stowage.serialization.message import Message

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as missing:
    raise MissingExtraError(
        "talking to a server needs grpcio and protobuf: pip install 'stowage-planner[client]'"
    ) from missing

M = TypeVar("M", bound=Message)

_DESCRIPTORS = pathlib.Path(__file__).parents[1] / "_proto" / "descriptors.binpb"


@functools.cache
def _pool() -> Any:
    files = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTORS.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:  # each after those that it imports
        pool.Add(file)
    return pool


@functools.cache
def message_class(name: str) -> Any:
    """The class of a message by its full name, as "stowage.v1.SolveRequest"."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def to_message(values: Message, message: Any) -> Any:
    """Fills an empty protobuf message with what `values` has; returns it.

    Raises:
        InvalidRequestError: A field has a value of another type.
    """
    _fill(values, message, type(values).root)
    return message


def from_message(message: Any, wanted: type[M]) -> M:
    """The dataclass of a protobuf message. Fields that the class does not have are left out.

    Raises:
        DataLossError: It has an enumerator that this version does not know.
    """
    fields: dict[str, Any] = {}
    for spec in spec_of(wanted):
        if spec.repeated:
            values = getattr(message, spec.name)
            fields[spec.name] = tuple([_read(spec, one) for one in values])
        elif not spec.optional or message.HasField(spec.name):
            fields[spec.name] = _read(spec, getattr(message, spec.name))
    return wanted(**fields)


def _fill(values: Message, message: Any, path: str) -> None:
    for spec in spec_of(type(values)):
        value = getattr(values, spec.name)
        at = f"{path}.{spec.name}"
        if value is None:
            continue
        if spec.kind is Kind.STRUCT:
            _fill_struct(scalar(spec, value, at), getattr(message, spec.name))
        elif spec.kind is Kind.MESSAGE and spec.repeated:
            field = getattr(message, spec.name)
            for i, one in enumerate(value):
                _fill(one, field.add(), f"{at}[{i}]")
        elif spec.kind is Kind.MESSAGE:
            field = getattr(message, spec.name)
            field.SetInParent()
            _fill(value, field, at)
        elif spec.repeated:
            getattr(message, spec.name).extend(
                [_wire(spec, scalar(spec, one, f"{at}[{i}]")) for i, one in enumerate(value)]
            )
        else:
            setattr(message, spec.name, _wire(spec, scalar(spec, value, at)))


def _wire(spec: FieldSpec, value: Any) -> Any:
    return value.value if spec.kind is Kind.ENUM else value


def _read(spec: FieldSpec, value: Any) -> Any:
    if spec.kind is Kind.MESSAGE:
        return from_message(value, spec.type)
    if spec.kind is Kind.STRUCT:
        return _struct(value)
    if spec.kind is not Kind.ENUM:
        return value
    try:
        return spec.type(value)
    except ValueError:
        raise DataLossError(
            f"{spec.name}: is {value}, which this version does not have; update stowage-planner"
        ) from None


def _fill_struct(values: Mapping[str, Any], message: Any) -> None:
    for key, value in values.items():
        _fill_value(value, message.fields[str(key)])


def _fill_value(value: Any, message: Any) -> None:
    """A google.protobuf.Value; what JSON does not have becomes a text."""
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, (int, float)):
        message.number_value = value
    elif isinstance(value, Mapping):
        message.struct_value.SetInParent()
        _fill_struct(value, message.struct_value)
    elif isinstance(value, (list, tuple)):
        message.list_value.SetInParent()
        for one in value:
            _fill_value(one, message.list_value.values.add())
    else:
        message.string_value = str(value)


def _struct(message: Any) -> dict[str, Any]:
    return {key: _free(value) for key, value in message.fields.items()}


def _free(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    if kind == "struct_value":
        return _struct(message.struct_value)
    if kind == "list_value":
        return [_free(one) for one in message.list_value.values]
    return getattr(message, kind)

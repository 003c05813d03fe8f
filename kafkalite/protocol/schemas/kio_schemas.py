"""Message schemas taken from kio's generated classes; the only module that imports kio, which the extra `test` installs.

kio has one class for each struct and version. Reading them by introspection keeps one home for the facts of the protocol. Durations and
datetimes become milliseconds, and their names say so.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from kafkalite.protocol.schemas.schema import Field, Struct, zero_of

_IN_MILLISECONDS = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}


@cache
def _import_kio() -> None:
    """Import kio without hypothesis.

    Where hypothesis is installed kio imports it, to register strategies for its own types: 9 MB and 0.3 s for nothing in a broker.
    """
    absent = "hypothesis" not in sys.modules
    if absent:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        if absent:
            del sys.modules["hypothesis"]


def load_struct(api_name: str, version: int, direction: str) -> Struct:
    """Return the schema of a message; `direction` is "request" or "response". KeyError when kio has no such version."""
    _import_kio()
    from kio.schema.index import schema_name_map
    from kio.static.constants import EntityType

    entities: Any = schema_name_map[api_name][version]
    module_name, class_name = entities[EntityType[direction]].split(":")
    module = __import__(module_name, fromlist=[class_name])
    return _struct(getattr(module, class_name))


def versions_of(api_name: str) -> tuple[int, int]:
    """Return the lowest and highest version that kio ships."""
    from kio.schema.index import schema_name_map

    versions = schema_name_map[api_name]
    return min(versions), max(versions)


def _struct(entity: Any) -> Struct:
    fields = tuple(_field(field) for field in dataclasses.fields(entity))
    return Struct(entity.__name__, fields, entity.__flexible__)


def _field(field: dataclasses.Field[Any]) -> Field:
    inner, nullable, is_array = field.type, False, False
    for _ in range(2):
        if get_origin(inner) in (Union, UnionType):
            nullable = not is_array  # an item that may be None is a zero uuid
            (inner,) = (a for a in get_args(inner) if a is not NoneType)
        elif get_origin(inner) is tuple:
            is_array = True
            inner = get_args(inner)[0]
    name, tag = field.name, field.metadata.get("tag")
    if dataclasses.is_dataclass(inner):
        return Field(name, _struct(inner), is_array, nullable or (tag is not None and not is_array), tag, None)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in _IN_MILLISECONDS:
        return Field(f"{name}_ms", _IN_MILLISECONDS[kafka_type], is_array, False, tag, _milliseconds(field.default))
    if kafka_type == "error_code":
        kafka_type = "int16"
    if kafka_type == "uuid" and not is_array:
        return Field(name, "uuid", False, False, tag, bytes(16))
    default = None if field.default is dataclasses.MISSING else field.default
    if is_array:
        return Field(name, kafka_type, True, nullable, tag, None)
    if default is None and not nullable:
        default = zero_of(kafka_type, nullable)
    return Field(name, kafka_type, False, nullable, tag, _plain(default))


def _milliseconds(default: Any) -> int:
    """Return a duration in ms; kio writes "no time" as None and as a duration of -1 ms."""
    if default is dataclasses.MISSING:
        return 0
    return -1 if default is None else round(default.total_seconds() * 1000)


def _plain(value: Any) -> Any:
    """Return the value without kio's subclasses of int and str."""
    kinds: tuple[type[Any], ...] = (bool, int, float, str, bytes)
    return next((kind(value) for kind in kinds if isinstance(value, kind)), value)

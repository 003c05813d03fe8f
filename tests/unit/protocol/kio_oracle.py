"""kio's generated messages as a second opinion: random ones, and the same values as our unified messages."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, Api

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_ALPHABET = "abcxyz-._0123ÄßЖ漢🙂"


class MessageVersion(NamedTuple):
    """One message in one version."""

    api: Api
    direction: str
    version: int

    def __str__(self) -> str:
        return f"{self.api.name}_{self.direction} {self.version}"

    @property
    def classes(self) -> dict[str, Any]:
        classes: dict[str, Any] = getattr(messages, f"{self.api.name}_{self.direction}").CLASSES
        return classes

    @property
    def kio_class(self) -> Any:
        entities: Any = schema_name_map[self.api.name][self.version]
        module_name, class_name = entities[EntityType[self.direction]].split(":")
        return getattr(__import__(module_name, fromlist=[class_name]), class_name)


def all_versions() -> Iterator[MessageVersion]:
    """Every message version that the codec knows."""
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield MessageVersion(api, "request", version)
            yield MessageVersion(api, "response", version)


def is_declared(api: Api, version: int) -> bool:
    """Is the schema ours rather than kio's?"""
    return version in messages.declared_versions(api)


class _Shape(NamedTuple):
    """What a field's annotation says."""

    inner: Any
    nullable: bool
    is_array: bool


def _shape(annotation: Any) -> _Shape:
    nullable = is_array = False
    for _ in range(2):
        if get_origin(annotation) in (Union, UnionType):
            nullable = True
            (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
        elif get_origin(annotation) is tuple:
            is_array = True
            annotation = get_args(annotation)[0]
    return _Shape(annotation, nullable, is_array)


def random_entity(kind: Any, rng: random.Random) -> Any:
    """A kio message with values from all over their ranges."""
    return kind(**{field.name: _random_value(field, rng) for field in dataclasses.fields(kind)})


def _random_value(field: dataclasses.Field[Any], rng: random.Random) -> Any:
    shape = _shape(field.type)
    if field.default is not dataclasses.MISSING and rng.random() < 0.2:
        return field.default
    if shape.nullable and rng.random() < 0.2:
        return None
    if shape.is_array:
        return tuple(_random_item(field, shape.inner, rng) for _ in range(rng.choice((0, 1, 2, 3))))
    return _random_item(field, shape.inner, rng)


def _random_item(field: dataclasses.Field[Any], inner: Any, rng: random.Random) -> Any:
    if dataclasses.is_dataclass(inner):
        return random_entity(inner, rng)
    match field.metadata["kafka_type"]:
        case "int8" | "int16" | "int32" | "int64" as name:
            bits = _BITS[name]
            return inner(rng.choice((0, 1, -1, -(1 << bits - 1), (1 << bits - 1) - 1, rng.getrandbits(bits - 1))))
        case "uint16":
            return inner(rng.getrandbits(16))
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return inner(rng.uniform(-1e9, 1e9))
        case "string":
            return inner("".join(rng.choices(_ALPHABET, k=rng.choice((0, 1, 7, 63, 200)))))
        case "bytes" | "records":
            return inner(rng.randbytes(rng.choice((0, 1, 126, 127, 128, 3000))))
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(127) + 1)
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32":
            return inner(timedelta(milliseconds=rng.choice((0, -1, 30_000, (1 << 31) - 1))))
        case "timedelta_i64":
            return inner(timedelta(milliseconds=rng.choice((0, -1, 30_000, 1 << 40))))
        case "datetime_i64":
            return inner.parse(datetime.fromtimestamp(rng.choice((0, 1, 1_700_000_000)), UTC))
        case other:
            raise AssertionError(f"{field.name}: no random value of {other}")


def as_ours(entity: Any, classes: dict[str, Any]) -> Any:
    """The unified message with the same values; fields that the version lacks keep their defaults."""
    made = classes[type(entity).__name__]()
    for field in dataclasses.fields(entity):
        name, value = our_field(entity, field, classes)
        setattr(made, name, value)
    return made


def our_field(entity: Any, field: dataclasses.Field[Any], classes: dict[str, Any]) -> tuple[str, Any]:
    """Our name and our value of one of kio's fields."""
    value, shape = getattr(entity, field.name), _shape(field.type)
    if dataclasses.is_dataclass(shape.inner):
        if shape.is_array:
            return field.name, None if value is None else [as_ours(each, classes) for each in value]
        is_absent = value is None or ("tag" in field.metadata and value == field.default)
        return field.name, None if is_absent else as_ours(value, classes)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return f"{field.name}_ms", -1 if value is None else round(value.total_seconds() * 1000)
    if kafka_type == "datetime_i64":
        return f"{field.name}_ms", -1 if value is None else round(value.timestamp() * 1000)
    if kafka_type == "uuid":
        if shape.is_array:
            return field.name, [each.bytes if each else bytes(16) for each in value]
        return field.name, value.bytes if value else bytes(16)
    return field.name, list(value) if shape.is_array and value is not None else value

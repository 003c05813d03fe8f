"""Every version of every message, compared with the definitions that Apache Kafka's jar brings along.

Compared are the types, arrays, nulls and tags of all fields in their order, as they lie on the wire; names are kio's, or near it. Private
APIs are ours alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest

from kafkalite.protocol import messages
from kafkalite.protocol.apis import KAFKA_APIS, Api, request_header_version
from kafkalite.protocol.schemas.schema import Struct
from tests.case import case
from tests.peers import apache_kafka

pytestmark = pytest.mark.peer

_NEVER = (1, 0)
_COMMENT = re.compile(r"^\s*//.*$|\s//.*$", re.MULTILINE)


class Wire(NamedTuple):
    """A field as it lies on the wire; `place` is its number in its struct, behind those of the structs that it is in."""

    place: tuple[int, ...]
    type: str
    is_array: bool
    nullable: bool
    tag: int | None


@cache
def definitions() -> dict[tuple[int, str], dict[str, Any]]:
    """Apache Kafka's message definitions by API key and direction."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    with ZipFile(apache_kafka.fetch() / f"kafka-clients-{apache_kafka.VERSION}.jar") as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                read = json.loads(_COMMENT.sub("", jar.read(name).decode()))
                if read["type"] in ("request", "response"):
                    found[read["apiKey"], read["type"]] = read
    return found


def _range(text: str) -> tuple[int, int]:
    """Of "3", "1-4", "2+" or "none"."""
    if text == "none":
        return _NEVER
    first, _, last = text.rstrip("+").partition("-")
    return int(first), 1 << 15 if text.endswith("+") else int(last or first)


def _has(field: dict[str, Any], key: str, version: int) -> bool:
    first, last = _range(field.get(key, "none"))
    return first <= version <= last


def defined(
    fields: list[dict[str, Any]], common: dict[str, Any], version: int, place: tuple[int, ...] = ()
) -> Iterator[Wire]:
    present = [field for field in fields if _has(field, "versions", version)]
    for number, field in enumerate(present):
        kind = field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(kind)
        is_array = field["type"].startswith("[]")
        nullable = _has(field, "nullableVersions", version)
        tag = int(field["tag"]) if _has(field, "taggedVersions", version) else None  # a number or text
        yield Wire((*place, number), "struct" if inner else kind, is_array, nullable, tag)
        if inner:
            yield from defined(inner, common, version, (*place, number))


def ours(struct: Struct, place: tuple[int, ...] = ()) -> Iterator[Wire]:
    for number, field in enumerate(struct.fields):
        here = (*place, number)
        if isinstance(field.type, Struct):
            absent = field.tag is not None and not field.is_array  # null while a tagged struct is absent
            yield Wire(here, "struct", field.is_array, field.nullable and not absent, field.tag)
            yield from ours(field.type, here)
        else:
            yield Wire(here, field.type, field.is_array, field.nullable, field.tag)


@pytest.mark.parametrize("direction", ["request", "response"])
def test_fields_are_those_of_apache_kafka(direction: str) -> None:
    for api in KAFKA_APIS.values():
        message = definitions()[api.key, direction]
        common = {each["name"]: each["fields"] for each in message.get("commonStructs", [])}
        for version in range(api.min_version, api.max_version + 1):
            with case((api.name, direction, version)):
                wanted = list(defined(message["fields"], common, version))
                assert list(ours(messages.schema(api, direction, version))) == wanted


@pytest.mark.parametrize("api", KAFKA_APIS.values(), ids=lambda api: api.name)
def test_versions_are_those_of_apache_kafka(api: Api) -> None:
    request = definitions()[api.key, "request"]
    assert (api.min_version, api.max_version) == _range(request["validVersions"])
    for version in range(api.min_version, api.max_version + 1):
        assert api.is_flexible(version) == _has(request, "flexibleVersions", version)
        assert (request_header_version(api, version) == 2) == api.is_flexible(version)

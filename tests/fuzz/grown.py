"""Requests that grow: of every API in each version, with so many items in one of their arrays as a number of bytes has room for."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, Final

from kafkalite.net.frames import request_frame
from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, Api, request_header_version
from kafkalite.protocol.schemas.compiler import compile_writer
from kafkalite.protocol.schemas.schema import Struct
from tests.fuzz.messages import filled
from tests.unit.protocol.hostile_frames import arrays, body_with_many

_APIS: Final = tuple(APIS.values())


def grown(rng: random.Random, size_bytes: int) -> bytes:
    """A frame without its length, of about `size_bytes` when its API has an array at all."""
    api = rng.choice(_APIS)
    version = rng.randrange(api.min_version, api.max_version + 1)
    schema = messages.schema(api, "request", version)
    make = rng.choice((_shortest, _meaningful))
    return make(api, version, schema, rng, size_bytes)


def _shortest(api: Api, version: int, schema: Struct, rng: random.Random, size_bytes: int) -> bytes:
    """The shortest items that there are."""
    paths = list(arrays(schema))
    header = struct.pack(">hhih", api.key, version, 7, -1)
    header += b"\0" if request_header_version(api, version) >= 2 else b""
    if not paths:
        return header + body_with_many(schema, (), 0)
    path = rng.choice(paths)
    one = len(body_with_many(schema, path, 1)) - len(body_with_many(schema, path, 0))
    return header + body_with_many(schema, path, size_bytes // max(1, one))


def _meaningful(api: Api, version: int, schema: Struct, rng: random.Random, size_bytes: int) -> bytes:
    """Items as chance fills them, a few different ones again and again."""
    classes = getattr(messages, f"{api.name}_request").CLASSES
    write = compile_writer(schema, classes)
    request = filled(schema, classes, rng)
    lists = [each for each in _lists(request) if each]
    if lists:
        chosen = rng.choice(lists)
        before = _size(write(request))
        chosen *= 2
        chosen *= 1 + size_bytes // max(1, _size(write(request)) - before) // 2
    return b"".join(request_frame(api, version, 7, "fuzz", write(request)))[4:]


def _size(parts: list[Any]) -> int:
    return sum(map(len, parts))


def _lists(message: Any) -> Iterator[list[Any]]:
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if isinstance(value, list):
            yield value
            for each in value:
                if hasattr(each, "FIELDS"):
                    yield from _lists(each)
        elif hasattr(value, "FIELDS"):
            yield from _lists(value)

"""Messages of every API in every version: requests with their headers, and responses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kafkalite.errors import KafkaError, ProtocolViolation
from kafkalite.net.frames import read_head, read_request_header, request_frame, response_body_position, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, KAFKA_APIS, Api, request_header_version
from kafkalite.protocol.schemas.compiler import compile_writer
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, Field, Struct
from tests.fuzz.engine import declared

_TEXTS = (
    "",
    "a",
    "topic",
    "topic",
    "group-1",
    "ä漢🙂",
    "range",
    "x" * 40,
    "..",
    "topic/partitions",
    "a\0b",
    "__consumer_offsets",
    "1",
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def filled(struct: Struct, classes: dict[str, Any], rng: random.Random) -> Any:
    """An object with something in every field of one version, as chance will have it."""
    made = classes[struct.name]()
    for field in struct.fields:
        if field.nullable and rng.random() < 0.2:
            setattr(made, field.name, None)
        elif field.is_array:
            setattr(made, field.name, [_item(field, classes, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))])
        else:
            setattr(made, field.name, _item(field, classes, rng))
    return made


def _item(field: Field, classes: dict[str, Any], rng: random.Random) -> Any:
    if isinstance(field.type, Struct):
        return filled(field.type, classes, rng)
    match field.type:
        case "string":
            return rng.choice(_TEXTS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 8, 40)))
        case "uuid":
            return rng.randbytes(16)
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.choice((0.0, 0.5, -1.0, 1e300))
        case "uint16" | "uint32":
            return rng.choice((0, 1, 2**16 - 1))
        case signed:
            assert signed in FIXED_FORMATS
            edge = 1 << _BITS[signed] - 1
            return rng.choice((0, 0, 1, 1, 2, 3, -1, edge - 1, -edge))


def body(api: Api, direction: str, version: int, rng: random.Random) -> list[Any]:
    """A message's bytes, in the structure of the version itself, without the adapters."""
    classes = getattr(messages, f"{api.name}_{direction}").CLASSES
    schema = messages.schema(api, direction, version)
    return compile_writer(schema, classes)(filled(schema, classes, rng))


def requests(rng: random.Random) -> list[bytes]:
    """A request of each API in each version, header included, without the length of the frame."""
    return [
        b"".join(request_frame(api, version, 7, "fuzz", body(api, "request", version, rng)))[4:]
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
    ]


def same_again(api_key: int, direction: str, version: int, message: Any) -> None:
    """What was read means the same when it is written and read again."""
    read, write = codec.reader(api_key, direction, version), codec.writer(api_key, direction, version)
    once = b"".join(write(message))
    twice = b"".join(write(read(once, 0)))
    assert once == twice, "it means something else when it is written and read again"


class Requests:
    """As `broker.dispatch` reads them: head, header, body."""

    name = "requests"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return requests(rng)

    def check(self, data: bytes) -> str:
        frame = memoryview(data)
        try:
            api_key, version, _ = read_head(frame)
            api = APIS.get(api_key)
            if api is None or not api.min_version <= version <= api.max_version:
                return "unknown"
            header = read_request_header(frame, request_header_version(api, version))
            request = codec.decode_request(api_key, version, frame, header.body_position)
        except (ProtocolViolation, KafkaError) as problem:
            return declared(problem)
        same_again(api_key, "request", version, request)
        return f"{api_key} {version}"


class Responses:
    """As our clients read them. The input begins with API key and version, which the client knows; a private key has no room there."""

    name = "responses"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [
            bytes((api.key, version))
            + b"".join(response_frame(api, version, 7, body(api, "response", version, rng)))[4:]
            for api in KAFKA_APIS.values()
            for version in range(api.min_version, api.max_version + 1)
        ]

    def check(self, data: bytes) -> str:
        api = APIS.get(data[0]) if len(data) > 1 else None
        if api is None or not api.min_version <= data[1] <= api.max_version:
            return "unknown"
        version, frame = data[1], data[2:]
        try:
            response = codec.decode_response(api.key, version, frame, response_body_position(api, version, frame))
        except (ProtocolViolation, KafkaError) as problem:
            return declared(problem)
        same_again(api.key, "response", version, response)
        return f"{api.key} {version}"

"""Avro by a registry: vectors by hand from Avro's specification, bytes that lie, schemas that are not there."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kafkalite.console.decoding import WHOLE_BYTES, decode_text
from kafkalite.console.schemas.avro import AvroError, AvroSchema
from kafkalite.console.schemas.registry import SchemaRegistry, http_fetch
from tests.case import case
from tests.unit.clocks import HandClock

NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
SCHEMAS: list[tuple[Any, bytes, Any]] = [
    ("null", b"", None),
    ("boolean", b"\x01", True),
    ("long", b"\x01", -1),
    ("long", b"\x80\x01", 64),
    ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
    ("float", struct.pack("<f", 0.5), 0.5),
    ("double", struct.pack("<d", -2.25), -2.25),
    ("string", b"\x06foo", "foo"),
    ("string", b"\x02\xff", "\\xff"),
    ("bytes", b"\x04\x00\xff", "00ff"),
    ({"type": "fixed", "name": "F", "size": 2}, b"\x01\x02", "0102"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x02", "B"),
    ({"type": "array", "items": "long"}, b"\x04\x06\x36\x00", [3, 27]),
    ({"type": "array", "items": "long"}, b"\x03\x04\x06\x36\x00", [3, 27]),
    ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", {"a": 1}),
    (["null", "string"], b"\x02\x02a", "a"),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\x02", 1),
    (
        {"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]},
        b"\x36\x06foo",
        {"a": 27, "b": "foo"},
    ),
    (NODE, b"\x02\x02\x04\x00", {"value": 1, "next": {"value": 2, "next": None}}),
    ({**NODE, "fields": [{"name": "next", "type": ["null", "n.Node"]}]}, b"\x02\x00", {"next": {"next": None}}),
]


def test_values_are_read_as_the_specification_says() -> None:
    for schema, data, value in SCHEMAS:
        with case((schema, data)):
            assert AvroSchema(json.dumps(schema)).read(data) == value


def test_bytes_and_schemas_that_lie_are_refused() -> None:
    endless = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    for schema, data in (
        ("long", b""),
        ("long", b"\xff" * 11),
        ("long", b"\x00\x00"),
        ("string", b"\xfe\xff\xff\xff\x0f"),
        ("string", b"\x01"),
        ("Absent", b""),
        (5, b""),
        (["null"], b"\x02"),
        ({"type": "enum", "name": "E", "symbols": []}, b"\x00"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x10\x00"),
        ({"type": "array", "items": "null"}, b"\x80\x92\xf4\x01" * 2 + b"\x00"),
        (endless, b""),
        (NODE, b"\x02\x02" * 1000),
        ([[["null"]]] * 1, b""),
    ):
        with case((schema, data[:8])), pytest.raises(AvroError):
            AvroSchema(json.dumps(schema)).read(data)
    with pytest.raises(AvroError):
        AvroSchema("{")
    with pytest.raises(AvroError):
        AvroSchema("[" * 70 + "]" * 70)


def numbered(number: int, content: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + content


def test_schemas_are_fetched_once_and_what_is_not_there_again_after_a_while() -> None:
    answers = {
        1: {"schema": json.dumps(SCHEMAS[17][0])},
        2: {"schema": "{}", "schemaType": "JSON"},
        3: {"schema": "", "schemaType": "XML"},
        4: {"schema": '"long"', "references": [{"name": "x"}]},
    }
    asked: list[int] = []
    clock = HandClock()

    async def fetch(path: str) -> bytes:
        number = int(path.removeprefix("schemas/ids/"))
        asked.append(number)
        if number not in answers:
            raise OSError("404")
        return json.dumps(answers[number]).encode()

    async def scenario() -> None:
        registry = SchemaRegistry(fetch, clock)
        avro, in_json = numbered(1, b"\x36\x06foo"), numbered(2, b'{"a":1}')
        values = [
            avro,
            avro,
            in_json,
            numbered(3, b"x"),
            numbered(4, b"\x02"),
            numbered(9, b"x"),
            b"text",
            b"\x00",
            None,
        ]
        for _ in range(2):
            await registry.load(values)
        assert sorted(asked) == [1, 2, 3, 4, 9], "each once"
        decoded = [registry.decode_value(each) for each in (avro, avro, in_json, b"text", b"\x00")]
        assert decoded == [*['{"a": 27, "b": "foo"}'] * 2, '{"a":1}', None, None]
        found = decode_text(avro, limit_bytes=WHOLE_BYTES, by_schema=registry.decode_value)
        assert (found["kind"], found["text"], found["reason"]) == ("schema", '{"a": 27, "b": "foo"}', None)
        assert decode_text(avro, "hex", by_schema=registry.decode_value)["kind"] == "hex"
        for value, reason in (
            (numbered(9, b"x"), "the registry did not give schema 9: 404"),
            (numbered(1, b"\x36"), "it does not match schema 1: the bytes end too soon"),
            (numbered(3, b"x"), "the registry did not give schema 3: schemas of the kind XML are not read"),
            (
                numbered(4, b"\x02"),
                "the registry did not give schema 4: schemas of the kind AVRO that refer to others are not read",
            ),
            (numbered(5, b"x"), "the registry did not give schema 5: it was not asked for yet; read again"),
        ):
            with case(reason):
                found = decode_text(value, by_schema=registry.decode_value)
                assert (found["kind"], found["reason"]) == ("hex", reason)
        clock.ms += 31_000
        await registry.load(values)
        assert sorted(asked) == [1, 2, 3, 3, 4, 4, 9, 9]

    asyncio.run(scenario())


def test_a_registry_is_asked_over_http_with_the_login_of_its_address() -> None:
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            self.send_response(200 if self.path.endswith("/7") else 404)
            self.end_headers()
            self.wfile.write(b"found")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            fetch = http_fetch(f"http://ann:s%40cret@127.0.0.1:{server.server_port}/base/")
            assert asyncio.run(fetch("schemas/ids/7")) == b"found"  # type: ignore[arg-type]
            with pytest.raises(OSError, match="404"):
                asyncio.run(fetch("schemas/ids/8"))  # type: ignore[arg-type]
        finally:
            server.shutdown()
            thread.join(20)
    login = "Basic " + base64.b64encode(b"ann:s@cret").decode()
    assert seen == [("/base/schemas/ids/7", login), ("/base/schemas/ids/8", login)]


def test_only_addresses_of_http_are_asked() -> None:
    for url in ("file:///etc/passwd", "registry:8081", ""):
        with pytest.raises(ValueError, match="http"):
            http_fetch(url)

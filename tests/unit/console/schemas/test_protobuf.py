"""Values in Protobuf, compared with Google's implementation, and what a registry serves of their schemas."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Kind
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.console.schemas.protobuf import ProtobufError, ProtobufSchema
from kafkalite.console.schemas.registry import SchemaRegistry
from tests.case import case
from tests.unit.clocks import HandClock

SCALARS = {
    "a_double": (Kind.TYPE_DOUBLE, 1.5),
    "a_float": (Kind.TYPE_FLOAT, -0.25),
    "an_int64": (Kind.TYPE_INT64, -(2**63)),
    "a_uint64": (Kind.TYPE_UINT64, 2**64 - 1),
    "an_int32": (Kind.TYPE_INT32, -7),
    "a_fixed64": (Kind.TYPE_FIXED64, 2**63),
    "a_fixed32": (Kind.TYPE_FIXED32, 2**31),
    "a_bool": (Kind.TYPE_BOOL, True),
    "a_string": (Kind.TYPE_STRING, "größer <script>"),
    "a_bytes": (Kind.TYPE_BYTES, b"\xff\x00"),
    "a_uint32": (Kind.TYPE_UINT32, 2**32 - 1),
    "an_sfixed32": (Kind.TYPE_SFIXED32, -(2**31)),
    "an_sfixed64": (Kind.TYPE_SFIXED64, -1),
    "an_sint32": (Kind.TYPE_SINT32, -3),
    "an_sint64": (Kind.TYPE_SINT64, -(2**40)),
}
"""A field of each scalar type, with a value."""


def shop_files() -> tuple[descriptor_pb2.FileDescriptorProto, descriptor_pb2.FileDescriptorProto]:
    """`shop.proto` with the messages Ignored and Order, and `parts.proto` with the message Part that Order has."""
    parts = descriptor_pb2.FileDescriptorProto(name="parts.proto", package="parts", syntax="proto3")
    part = parts.message_type.add(name="Part")
    part.field.add(name="sku", number=1, type=Kind.TYPE_STRING, label=Kind.LABEL_OPTIONAL)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["parts.proto", "google/protobuf/timestamp.proto"])
    shop.message_type.add(name="Ignored")
    order = shop.message_type.add(name="Order")
    for number, (name, (kind, _)) in enumerate(SCALARS.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=Kind.LABEL_OPTIONAL)
        if kind not in (Kind.TYPE_STRING, Kind.TYPE_BYTES):
            order.field.add(name=f"{name}s", number=number + 50, type=kind, label=Kind.LABEL_REPEATED)
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    entry = order.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Kind.TYPE_STRING, label=Kind.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Kind.TYPE_INT64, label=Kind.LABEL_OPTIONAL)
    order.nested_type.add(name="Inner").field.add(name="n", number=1, type=Kind.TYPE_INT32, label=Kind.LABEL_OPTIONAL)
    for number, name, kind, type_name, label in (
        (200, "state", Kind.TYPE_ENUM, ".shop.Order.State", Kind.LABEL_OPTIONAL),
        (201, "states", Kind.TYPE_ENUM, ".shop.Order.State", Kind.LABEL_REPEATED),
        (202, "notes", Kind.TYPE_MESSAGE, ".shop.Order.NotesEntry", Kind.LABEL_REPEATED),
        (203, "inner", Kind.TYPE_MESSAGE, ".shop.Order.Inner", Kind.LABEL_REPEATED),
        (204, "part", Kind.TYPE_MESSAGE, ".parts.Part", Kind.LABEL_OPTIONAL),
        (205, "at", Kind.TYPE_MESSAGE, ".google.protobuf.Timestamp", Kind.LABEL_OPTIONAL),
        (206, "parent", Kind.TYPE_MESSAGE, ".shop.Order", Kind.LABEL_OPTIONAL),
    ):
        order.field.add(name=name, number=number, type=kind, type_name=type_name, label=label)
    return shop, parts


SHOP, PARTS = shop_files()


def order_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for each in (PARTS, SHOP):
        pool.Add(each)  # type: ignore[no-untyped-call]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))  # type: ignore[no-untyped-call]


ORDER = order_class()
FILES = [SHOP.SerializeToString(), PARTS.SerializeToString()]
OF_ORDER = b"\x02\x02"
"""The indexes of Order, the second message: one index, 1, zigzag-encoded."""


def an_order() -> Any:
    order = ORDER(state=1, states=[0, 1, 7], notes={"a": 1, "": 0}, part={"sku": "s-1"}, at={"seconds": 5, "nanos": 6})
    for name, (kind, value) in SCALARS.items():
        setattr(order, name, value)
        if kind not in (Kind.TYPE_STRING, Kind.TYPE_BYTES):
            getattr(order, f"{name}s").extend([value, value])
    order.inner.add(n=1)
    order.inner.add()
    order.parent.an_int32 = 9
    return order


def test_values_are_what_googles_implementation_has_written() -> None:
    found = ProtobufSchema(FILES).read(OF_ORDER + an_order().SerializeToString())
    for name, (kind, value) in SCALARS.items():
        with case(name):
            assert found[name] == (value.hex() if isinstance(value, bytes) else value)
            assert kind in (Kind.TYPE_STRING, Kind.TYPE_BYTES) or found[f"{name}s"] == [value, value]
    assert {name: found[name] for name in ("state", "states", "notes", "inner", "part", "at", "parent")} == {
        "state": "PAID",
        "states": ["NEW", "PAID", 7],
        "notes": {"a": 1, "": 0},
        "inner": [{"n": 1}, {}],
        "part": {"sku": "s-1"},
        "at": {"seconds": 5, "nanos": 6},
        "parent": {"an_int32": 9},
    }


def test_messages_are_found_by_their_indexes() -> None:
    schema = ProtobufSchema(FILES)
    assert schema.read(b"\x00") == {}, "the first message"
    assert schema.read(b"\x04\x02\x02" + b"\x08\x05") == {"n": 5}, "Order.Inner"
    for data, told in (
        (b"\x02\x08", "4 is none of 2 messages of the schema"),
        (b"\x04\x02\x0a", "5 is none of 2 messages of shop.Order"),
        (b"\x01", "no indexes"),
        (b"", "does not end"),
    ):
        with pytest.raises(ProtobufError, match=told):
            schema.read(data)


def test_fields_that_are_not_known_are_shown_by_their_numbers() -> None:
    schema = ProtobufSchema(FILES[:1])
    assert schema.read(OF_ORDER + ORDER(part={"sku": "s-1"}).SerializeToString()) == {"part": {"1": "732d31"}}
    assert schema.read(b"\x00\x08\x01\x08\x02\x08\x03\x12\x01x") == {"1": [1, 2, 3], "2": "78"}


def test_bytes_that_do_not_match_are_refused() -> None:
    schema = ProtobufSchema(FILES)
    deep = b""
    for _ in range(70):
        deep = struct.pack("<BB", 0xF2, 0x0C) + _varint(len(deep)) + deep
    for data, told in (
        (b"\x08", "does not end"),
        (b"\x4a\x05ab", "end too soon"),
        (b"\x0b", "wire type 3"),
        (b"\x48\x01", "field a_string has wire type 0"),
        (b"\xf0\x0c\x01", "parent has wire type 0"),
        (deep, "nested too deeply"),
        (b"\x08\x01" * 20_000, "has wire type"),
        (_packed(20_000), "too many values"),
    ):
        with case(told), pytest.raises(ProtobufError, match=told):
            schema.read(OF_ORDER + data)
    for file in (b"\xff", b"\x22\x02\x08\x01", b"\x12\x01x\x22\x03\x12\x01\x08", b'syntax = "proto3";'):
        with case(file), pytest.raises(ProtobufError):
            ProtobufSchema([file])


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def _packed(count: int) -> bytes:
    return _varint((53 << 3) | 2) + _varint(count) + b"\x01" * count


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        json.dumps(ProtobufSchema(FILES).read(OF_ORDER + data))
    except ProtobufError:
        pass
    try:
        ProtobufSchema([data])
    except ProtobufError:
        pass


def test_a_registry_is_asked_for_descriptors_and_the_files_that_they_refer_to() -> None:
    reference = {"name": "parts.proto", "subject": "of/parts", "version": 3}
    answers: dict[str, dict[str, Any]] = {
        "schemas/ids/1": {"schema": "syntax …", "schemaType": "PROTOBUF", "references": [reference]},
        "schemas/ids/1?format=serialized": {"schema": base64.b64encode(FILES[0]).decode(), "references": [reference]},
        "subjects/of%2Fparts/versions/3?format=serialized": {"schema": base64.b64encode(FILES[1]).decode()},
        "schemas/ids/2": {"schema": "syntax …", "schemaType": "PROTOBUF"},
        "schemas/ids/2?format=serialized": {"schema": 'syntax = "proto3";'},
    }

    async def fetch(path: str) -> bytes:
        return json.dumps(answers[path]).encode()

    async def scenario() -> None:
        registry = SchemaRegistry(fetch, HandClock())
        content = OF_ORDER + ORDER(part={"sku": "s-1"}, a_uint64=2**64 - 1).SerializeToString()
        value = struct.pack(">bI", 0, 1) + content
        await registry.load([value, struct.pack(">bI", 0, 2) + content])
        assert registry.decode_value(value) == '{"a_uint64": 18446744073709551615, "part": {"sku": "s-1"}}'
        with pytest.raises(ValueError, match="schema 2: the registry does not serve it as a descriptor"):
            registry.decode_value(struct.pack(">bI", 0, 2) + content)
        with pytest.raises(ValueError, match="it does not match schema 1: the bytes end too soon"):
            registry.decode_value(value[:-1])

    asyncio.run(scenario())

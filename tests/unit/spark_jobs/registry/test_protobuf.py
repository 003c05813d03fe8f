"""Protobuf schemas as a registry has them, compiled by protoc, and values as the classes of Protobuf's own library write them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.registry import protobuf_values
from spark_jobs.registry.decoders import column_type, make_decoder, prepare_schemas, writer_schema
from spark_jobs.registry.schemas import PROTOBUF, Decoding, Reference, Schema, SchemaError
from spark_jobs.registry.wire_format import MAX_NESTING, WireFormatError, message_indexes, with_header

COMMON = """
syntax = "proto3";
package shop;
message Money { string currency = 1; int64 units = 2; }
"""
ORDER = """
syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/empty.proto";
message Order {
  enum State { UNKNOWN = 0; PAID = 1; }
  message Line { string sku = 1; uint32 count = 2; }
  string id = 1;
  optional int32 rank = 2;
  uint64 big = 3;
  double weight = 4;
  float ratio = 5;
  bool gift = 6;
  bytes raw = 7;
  State state = 8;
  Money price = 9;
  repeated Line lines = 10;
  map<string, int64> counts = 11;
  map<int32, Money> rates = 12;
  google.protobuf.Timestamp at = 13;
  google.protobuf.Struct extra = 14;
  repeated sint64 numbers = 15;
  oneof payment { string card = 16; Money cash = 17; google.protobuf.Empty none = 18; }
}
message Other { Order order = 1; }
"""
MONEY = Reference("common/money.proto", COMMON)


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Schema]:
    """All schemas of these tests, compiled by one protoc."""
    texts = {
        "order": Schema(ORDER, PROTOBUF, (MONEY,)),
        "old": Schema('syntax = "proto3"; package shop; message Order { string id = 1; string gone = 99; }', PROTOBUF),
        "other": Schema('syntax = "proto3"; package shop; message Money { string id = 1; }', PROTOBUF),
        "nested": Schema('syntax = "proto3"; message A { message B { message C { int32 x = 1; } } }', PROTOBUF),
        "recursive": Schema('syntax = "proto3"; message Node { int32 x = 1; repeated Node next = 2; }', PROTOBUF),
        "empty": Schema('syntax = "proto3"; message A {}', PROTOBUF),
        "none": Schema('syntax = "proto3";', PROTOBUF),
        "case": Schema('syntax = "proto3"; message A { int32 a = 1; int32 A = 2; }', PROTOBUF),
        "wide": Schema(wide(14), PROTOBUF),
        "fat": Schema(fat(2000), PROTOBUF),
        "proto2": Schema(
            'syntax = "proto2"; message A { required int32 a = 1; optional string b = 2 [default = "x"]; }', PROTOBUF
        ),
        "broken": Schema("message A {", PROTOBUF),
        "missing": Schema('syntax = "proto3"; import "gone.proto"; message A { int32 a = 1; }', PROTOBUF),
        "outside": Schema(
            'syntax = "proto3"; message A { int32 a = 1; }', PROTOBUF, (Reference("../../x", "message B"),)
        ),
        "timestamp": Schema(
            'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp at = 1; }',
            PROTOBUF,
            (
                Reference(
                    "google/protobuf/timestamp.proto",
                    'syntax = "proto3"; package google.protobuf; message Timestamp { string s = 1; }',
                ),
            ),
        ),
    }
    return dict(zip(texts, prepare_schemas(list(texts.values())), strict=True))


def wide(levels: int) -> str:
    """Messages of which each has two fields of the one before it."""
    messages = [f"message N{n} {{ N{n - 1} a = 1; N{n - 1} b = 2; }}" for n in range(levels, 0, -1)]
    return 'syntax = "proto3"; ' + " ".join([*messages, "message N0 { int32 x = 1; }"])


def fat(fields: int) -> str:
    """A message with a list of messages of many fields."""
    listed = " ".join(f"int32 f{n} = {n + 1};" for n in range(fields))
    return f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {listed} }}'


def message_class(schema: Schema, name: str) -> Any:
    """The class of a message, as any user of Protobuf gets it."""
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(schema.compiled).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def packed(number: int, message: Any, indexes: bytes = b"\x00") -> bytes:
    return with_header(number, indexes + message.SerializeToString())


def decode(reader: Schema, writers: Mapping[int, Schema], *values: bytes | None, message: str | None = None) -> Any:
    written = {number: writer_schema(schema) for number, schema in writers.items()}
    decoder = make_decoder(pickle.loads(pickle.dumps(Decoding(reader, written, "subject t-value", message))))
    found, reasons = decoder.decode(pa.array(values, pa.binary()))
    assert found.type == decoder.type
    return found.to_pylist(), reasons


def test_types(schemas: Mapping[str, Schema]) -> None:
    assert column_type(schemas["order"]).simpleString() == (
        "struct<id:string,rank:int,big:decimal(20,0),weight:double,ratio:float,gift:boolean,raw:binary,state:string,"
        "price:struct<currency:string,units:bigint>,lines:array<struct<sku:string,count:bigint>>,counts:map<string,bigint>,"
        "rates:map<int,struct<currency:string,units:bigint>>,at:timestamp,extra:string,numbers:array<bigint>,card:string,"
        "cash:struct<currency:string,units:bigint>>"
    )
    nullable = {each.name for each in column_type(schemas["order"]).fields if each.nullable}
    assert nullable == {"rank", "price", "at", "extra", "card", "cash"}
    assert column_type(schemas["proto2"]).simpleString() == "struct<a:int,b:string>"
    assert column_type(schemas["timestamp"]).simpleString() == "struct<at:struct<s:string>>", (
        "another type of that name"
    )


def test_values(schemas: Mapping[str, Schema]) -> None:
    order = schemas["order"]
    message = message_class(order, "shop.Order")(
        id="o1",
        rank=0,
        big=(1 << 64) - 1,
        weight=0.5,
        ratio=0.25,
        gift=True,
        raw=b"\xff",
        state=1,
        price={"currency": "EUR", "units": 5},
        lines=[{"sku": "a", "count": (1 << 32) - 1}, {"sku": "b"}],
        counts={"x": 1},
        rates={7: {"currency": "USD"}},
        numbers=[-1, 1 << 40],
        card="1234",
    )
    message.at.FromDatetime(datetime(2013, 6, 15, 10, 0, 0, 5, tzinfo=UTC))
    message.extra["k"] = [1, None, "ü"]
    unset = {"rank": None, "price": None, "at": None, "extra": None, "card": None, "cash": None}
    default = {"id": "", "big": Decimal(0), "weight": 0.0, "ratio": 0.0, "gift": False, "raw": b"", "state": "UNKNOWN"}
    empty: dict[str, Any] = {"lines": [], "counts": [], "rates": [], "numbers": []}
    found, reasons = decode(order, {3: order}, packed(3, message), with_header(3, b"\x00"), None)
    assert reasons == [None, None, None]
    assert found[0] == {
        "id": "o1",
        "rank": 0,
        "big": Decimal((1 << 64) - 1),
        "weight": 0.5,
        "ratio": 0.25,
        "gift": True,
        "raw": b"\xff",
        "state": "PAID",
        "price": {"currency": "EUR", "units": 5},
        "lines": [{"sku": "a", "count": (1 << 32) - 1}, {"sku": "b", "count": 0}],
        "counts": [("x", 1)],
        "rates": [(7, {"currency": "USD", "units": 0})],
        "at": datetime(2013, 6, 15, 10, 0, 0, 5, tzinfo=UTC),
        "extra": '{"k": [1.0, null, "ü"]}',
        "numbers": [-1, 1 << 40],
        "card": "1234",
        "cash": None,
    }
    assert found[1:] == [{**unset, **default, **empty}, None]


def test_unset_fields_of_proto2_are_null(schemas: Mapping[str, Schema]) -> None:
    message = message_class(schemas["proto2"], "A")(a=1)
    assert decode(schemas["proto2"], {1: schemas["proto2"]}, packed(1, message)) == ([{"a": 1, "b": None}], [None])


def test_old_and_new_messages_are_read_by_the_readers_schema(schemas: Mapping[str, Schema]) -> None:
    old = message_class(schemas["old"], "shop.Order")(id="o1", gone="x")
    new = message_class(schemas["order"], "shop.Order")(id="o2", rank=3)
    writers = {1: schemas["old"], 2: schemas["order"]}
    found, reasons = decode(schemas["order"], writers, packed(1, old), packed(2, new))
    assert reasons == [None, None]
    assert [(row["id"], row["rank"]) for row in found] == [("o1", None), ("o2", 3)]
    assert decode(schemas["old"], writers, packed(2, new)) == ([{"id": "o2", "gone": ""}], [None])


@pytest.mark.parametrize(
    ("indexes", "name"),
    [(b"\x00", "A"), (b"\x02\x00", "A"), (b"\x04\x00\x00", "A.B"), (b"\x06\x00\x00\x00", "A.B.C")],
)
def test_messages_are_found_by_their_places(schemas: Mapping[str, Schema], indexes: bytes, name: str) -> None:
    value = with_header(1, indexes + b"\x08\x05")
    found, reasons = decode(schemas["nested"], {1: schemas["nested"]}, value, message="A.B.C")
    if name == "A.B.C":
        assert (found, reasons) == ([{"x": 5}], [None])
    else:
        assert (found, reasons) == ([None], [f"not a A.B.C: the schema 1 says that it is a {name}"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", "not in the schema registry's wire format: 2 bytes"),
        (b'{"a": 1}', "not in the schema registry's wire format: the first byte is 0x7b"),
        (with_header(1, b""), "not in the schema registry's wire format: it ends within the message indexes"),
        (with_header(1, b"\x03"), "not in the schema registry's wire format: -2 message indexes"),
        (
            with_header(1, b"\xff\xff\xff\xff\xff\xff"),
            "not in the schema registry's wire format: a message index is too",
        ),
        (with_header(1, b"\xd0\x0f"), "not in the schema registry's wire format: 1000 message indexes"),
        (with_header(1, b"\x02\x12"), "not a shop.Order: the schema 1 has no message at the place [9]"),
        (with_header(1, b"\x02\x02"), "not a shop.Order: the schema 1 says that it is a shop.Other"),
        (with_header(1, b"\x00\x0a\x05x"), "not Protobuf of the schema 1: DecodeError"),
        (with_header(1, b"\x00\x0a\x01\xff"), "not Protobuf of the schema 1"),
        (with_header(2, b"\x00"), "unknown schema id 2: subject t-value has no such schema"),
        (with_header(3, b"\x00"), "the schema 3 cannot be decoded with: protoc: schema.proto:1:12: "),
        (with_header(4, b"\x00"), "not a shop.Order: the schema 4 says that it is a shop.Money"),
    ],
)
def test_each_kind_of_damage_has_a_reason_of_its_own(schemas: Mapping[str, Schema], value: bytes, reason: str) -> None:
    writers = {1: schemas["order"], 3: schemas["broken"], 4: schemas["other"]}
    found, reasons = decode(schemas["order"], writers, with_header(1, b"\x00"), value, with_header(1, b"\x00"))
    assert [each is None for each in found] == [False, True, False]
    assert reasons[0] is None and reasons[2] is None
    assert reasons[1] is not None and reasons[1].startswith(reason), reasons[1]


@pytest.mark.parametrize(
    ("name", "message", "error"),
    [
        ("recursive", None, "Node.next is of the type Node, which contains itself"),
        ("empty", None, "A is a message without fields"),
        ("none", None, "the schema has no message"),
        ("order", "shop.Nothing", r"the schema has no message shop\.Nothing"),
        ("case", None, r"A\.A differs from another field in case alone"),
        ("wide", None, "the message has more than 10000 fields"),
        ("broken", None, "protoc: schema.proto:1:12: "),
        ("missing", None, r"protoc: gone\.proto: File not found"),
        ("outside", None, r"it refers to '\.\./\.\./x', which is no name of a file to import"),
    ],
)
def test_schemas_that_cannot_be_columns(
    schemas: Mapping[str, Schema], name: str, message: str | None, error: str
) -> None:
    with pytest.raises(SchemaError, match=error):
        column_type(schemas[name], message)


def test_a_small_value_that_stands_for_a_large_one(schemas: Mapping[str, Schema]) -> None:
    few, many = with_header(1, b"\x00" + b"\x0a\x00" * 10), with_header(1, b"\x00" + b"\x0a\x00" * 1000)
    found, reasons = decode(schemas["fat"], {1: schemas["fat"]}, few, many, few)
    assert [each is None for each in found] == [False, True, False]
    assert reasons == [None, "it has more than 1000000 values", None]


def test_timestamps_that_are_on_no_date(schemas: Mapping[str, Schema]) -> None:
    message = message_class(schemas["order"], "shop.Order")()
    message.at.seconds = 1 << 50
    found, reasons = decode(schemas["order"], {1: schemas["order"]}, packed(1, message))
    assert found == [None] and reasons[0].startswith("not Protobuf of the schema 1: OverflowError")


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_stop_a_decoder(schemas: Mapping[str, Schema], payloads: list[bytes]) -> None:
    values = (
        [with_header(1, b"\x00" + each) for each in payloads] + [with_header(1, each) for each in payloads] + payloads
    )
    found, reasons = decode(schemas["order"], {1: schemas["order"]}, *values)
    assert all((value is None) == (reason is not None) for value, reason in zip(found, reasons, strict=True))


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=5))
def test_indexes_are_zigzag_varints(numbers: list[int]) -> None:
    def zigzag(number: int) -> bytes:
        left, found = (number << 1) ^ (number >> 63), b""
        while left >= 0x80:
            left, found = left >> 7, found + struct.pack("B", left & 0x7F | 0x80)
        return found + struct.pack("B", left)

    value = with_header(1, zigzag(len(numbers)) + b"".join(map(zigzag, numbers)))
    assert message_indexes(value + b"rest") == (tuple(numbers) or (0,), len(value))


def test_nesting_is_bounded() -> None:
    with pytest.raises(WireFormatError, match="message indexes"):
        message_indexes(with_header(1, b"\xca\x01" + b"\x00" * (MAX_NESTING + 1)))


def test_protoc_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.registry import protobuf_compiler

    monkeypatch.setattr(protobuf_compiler, "find_spec", lambda name: None)
    with pytest.raises(SchemaError, match=r"needs grpcio-tools: pip install 'kafkalite\[protobuf\]'"):
        prepare_schemas([Schema("", PROTOBUF)])
    assert protobuf_values.MAX_VALUES == 1_000_000

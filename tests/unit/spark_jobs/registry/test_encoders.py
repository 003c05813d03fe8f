"""Values of columns to the wire format, read by the libraries' own readers and by the decoders of the source."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.batch.schemas import arrow_type
from spark_jobs.registry.decoders import column_type, make_decoder, prepare_schemas
from spark_jobs.registry.encoders import EncodeError, ValueEncoder
from spark_jobs.registry.schemas import AVRO, JSON, PROTOBUF, Decoding, Encoding, Schema
from spark_jobs.registry.wire_format import HEADER_BYTES, message_indexes, schema_id, with_header, with_message_indexes


def avro(content: Any) -> Schema:
    return Schema(json.dumps(content), AVRO)


def fields(**kinds: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}


def encode(schema: Schema, *rows: Any, message: str | None = None) -> list[bytes]:
    """Rows go through Arrow, as Spark's do."""
    encoder = ValueEncoder(pickle.loads(pickle.dumps(Encoding(7, schema, "subject t-value", message))))
    values = [encoder.encode(each) for each in pa.array(rows, arrow_type(column_type(schema, message))).to_pylist()]
    assert {schema_id(each) for each in values} <= {7}
    return values


def decode(schema: Schema, values: list[bytes], message: str | None = None) -> list[Any]:
    found, reasons = make_decoder(Decoding(schema, {7: schema}, message=message)).decode(pa.array(values, pa.binary()))
    assert not any(reasons), reasons
    return list(found.to_pylist())


INNER = {"type": "record", "name": "I", "fields": [{"name": "q", "type": ["null", "int"]}]}
FLIGHT = fields(
    carrier="string",
    delay=["null", "int"],
    wide=["int", "long"],
    day={"type": "int", "logicalType": "date"},
    at={"type": "long", "logicalType": "timestamp-millis"},
    local={"type": "long", "logicalType": "local-timestamp-micros"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    state={"type": "enum", "name": "E", "symbols": ["ON_TIME", "LATE"]},
    raw={"type": "fixed", "name": "F", "size": 2},
    inner=["null", INNER],
    tags={"type": "array", "items": ["null", "string"]},
    counts={"type": "map", "values": "long"},
    union=["null", "string", "I", "E", {"type": "array", "items": "int"}],
)
ROW = {
    "carrier": "UA",
    "delay": None,
    "wide": 1 << 40,
    "day": date(2013, 6, 15),
    "at": datetime(2013, 6, 15, 10, 0, 0, 5000, tzinfo=UTC),
    "local": datetime(2013, 6, 15, 10, 0, 0, 5),
    "price": Decimal("-12.50"),
    "state": "LATE",
    "raw": b"ab",
    "inner": {"q": 5},
    "tags": ["a", None],
    "counts": [("x", 1)],
    "union": {"member0": None, "member1": {"q": None}, "member2": None, "member3": None},
}


def test_avro_is_what_fastavro_reads() -> None:
    (value,) = encode(avro(FLIGHT), ROW)
    read = fastavro.schemaless_reader(BytesIO(value[HEADER_BYTES:]), fastavro.parse_schema(FLIGHT), None)
    assert read == {**ROW, "counts": {"x": 1}, "union": {"q": None}}


@pytest.mark.parametrize(
    "union",
    [
        None,
        {"member0": "s"},
        {"member1": {"q": 5}},
        {"member2": "ON_TIME"},
        {"member3": [1, 2]},
    ],
)
def test_members_of_unions_come_back(union: Any) -> None:
    none: dict[str, Any] = dict.fromkeys((f"member{index}" for index in range(4)), None)
    row = {**ROW, "union": union and {**none, **union}}
    assert decode(avro(FLIGHT), encode(avro(FLIGHT), row)) == [row]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "COLOUR"}, "ValueError"),
        ({"raw": b"abc"}, "ValueError"),
        ({"carrier": None}, "TypeError"),
        ({"union": {"member0": "a", "member2": "LATE"}}, "a union has 2 members that are not null"),
    ],
)
def test_values_that_are_not_of_an_avro_schema(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=f"cannot be written with the schema 7 of subject t-value: .*{reason}"):
        encode(avro(FLIGHT), {**ROW, **change})


def test_fields_that_a_column_has_not_get_their_defaults() -> None:
    schema = {
        **fields(a="int"),
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": "string", "default": "x"},
            {"name": "c", "type": ["null", "int"]},
            {"name": "d", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
        ],
    }
    value = ValueEncoder(Encoding(7, avro(schema), "subject t-value")).encode({"a": 1})
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert decode(avro(schema), [value]) == [{"a": 1, "b": "x", "c": None, "d": second}]


@pytest.mark.parametrize(("schema", "value"), [("string", "k"), ("long", 5), (["null", "string"], "k")])
def test_keys_need_not_be_records(schema: Any, value: Any) -> None:
    assert decode(avro(schema), encode(avro(schema), value)) == [value]


ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
message First { int32 x = 1; }
message Order {
  enum State { UNKNOWN = 0; PAID = 1; }
  message Line { string sku = 1; optional uint64 count = 2; }
  string id = 1;
  optional int32 rank = 2;
  State state = 3;
  Line line = 4;
  repeated Line lines = 5;
  repeated State states = 6;
  map<string, int64> counts = 7;
  map<int32, Line> by_number = 8;
  google.protobuf.Timestamp at = 9;
  google.protobuf.Struct extra = 10;
  oneof payment { string card = 11; Line voucher = 12; }
}
"""
NAME = "shop.Order"
ORDER_ROW = {
    "id": "o1",
    "rank": 0,
    "state": "PAID",
    "line": {"sku": "", "count": None},
    "lines": [{"sku": "a", "count": Decimal((1 << 64) - 1)}, {"sku": "b", "count": None}],
    "states": ["PAID", "UNKNOWN", "7"],
    "counts": [("x", 1)],
    "by_number": [(7, {"sku": "c", "count": Decimal(0)})],
    "at": datetime(1969, 6, 15, 10, 0, 0, 5, tzinfo=UTC),
    "extra": '{"k": [1.0, null, "ü"]}',
    "card": None,
    "voucher": {"sku": "v", "count": None},
}


@pytest.fixture(scope="module")
def order() -> Schema:
    (found,) = prepare_schemas([Schema(ORDER, PROTOBUF)])
    return found


def test_protobuf_is_what_its_own_classes_read(order: Schema) -> None:
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(order.compiled).file:
        pool.Add(each)
    (value,) = encode(order, ORDER_ROW, message=NAME)
    place, begin = message_indexes(value)
    read = message_factory.GetMessageClass(pool.FindMessageTypeByName(NAME)).FromString(value[begin:])
    assert place == (1,)
    assert (read.id, read.HasField("rank"), read.state, list(read.states)) == ("o1", True, 1, [1, 0, 7])
    assert read.HasField("line") and read.lines[0].count == (1 << 64) - 1 and read.by_number[7].sku == "c"
    assert read.at.ToDatetime(tzinfo=UTC) == ORDER_ROW["at"]
    assert read.extra["k"][2] == "ü" and read.WhichOneof("payment") == "voucher" and read.counts["x"] == 1


def test_protobuf_comes_back(order: Schema) -> None:
    empty: dict[str, Any] = {**dict.fromkeys(ORDER_ROW, None), "id": "", "state": "UNKNOWN"}
    empty |= {"lines": [], "states": [], "counts": [], "by_number": []}
    assert decode(order, encode(order, ORDER_ROW, empty, message=NAME), NAME) == [ORDER_ROW, empty]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "COLOUR"}, "'COLOUR' is no value of shop.Order.State"),
        ({"card": "1"}, "card and voucher are set, of which a message has one"),
        ({"extra": "{"}, "ParseError"),
    ],
)
def test_values_that_are_not_of_a_protobuf_schema(order: Schema, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        encode(order, {**ORDER_ROW, **change}, message=NAME)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5))
def test_places_of_messages_come_back(place: list[int]) -> None:
    value = with_header(1, with_message_indexes(place, b"payload"))
    found, begin = message_indexes(value)
    assert (list(found), value[begin:]) == (place, b"payload")


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
JSON_FLIGHT = {
    "type": "object",
    "required": ["carrier", "delay"],
    "additionalProperties": False,
    "definitions": {"inner": {"type": "object", "properties": {"x": INTEGER, "y": STRING}}},
    "properties": {
        "carrier": {"type": "string", "maxLength": 2},
        "delay": {"type": ["null", "integer"]},
        "weight": {"type": "number"},
        "tags": {"type": "array", "items": {"anyOf": [{"type": "null"}, STRING]}},
        "counts": {"type": "object", "additionalProperties": INTEGER},
        "inner": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/inner"}]},
        "any": {},
        "child": {"$ref": "#"},
    },
}
JSON_ROW = {
    "carrier": "UA",
    "delay": None,
    "weight": 0.5,
    "tags": ["a", None],
    "counts": [("x", 1)],
    "inner": {"x": 1, "y": None},
    "any": '{"k": [1, "ü"]}',
    "child": '{"carrier": "AA", "delay": 5}',
}


def test_json_is_valid_and_comes_back() -> None:
    schema = Schema(json.dumps(JSON_FLIGHT), JSON)
    values = encode(schema, JSON_ROW)
    assert json.loads(values[0][HEADER_BYTES:]) == {
        "carrier": "UA",
        "delay": None,
        "weight": 0.5,
        "tags": ["a", None],
        "counts": {"x": 1},
        "inner": {"x": 1},
        "any": {"k": [1, "ü"]},
        "child": {"carrier": "AA", "delay": 5},
    }
    assert decode(schema, values) == [JSON_ROW]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"carrier": "long"}, '/carrier: "long" is longer than 2 characters'),
        ({"carrier": None}, "/carrier: null is not of type"),
        ({"any": "{"}, "JSONDecodeError"),
        ({"weight": float("nan")}, "Out of range float"),
    ],
)
def test_values_that_are_not_of_a_json_schema(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        encode(Schema(json.dumps(JSON_FLIGHT), JSON), {**JSON_ROW, **change})

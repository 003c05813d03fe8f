"""JSON Schemas to columns, and values that are valid by another implementation, jsonschema, or not."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Mapping
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.registry import decoders
from spark_jobs.registry.decoders import column_type, make_decoder, prepare_schemas, writer_schema
from spark_jobs.registry.json_bounds import measure
from spark_jobs.registry.json_document import JsonDocument
from spark_jobs.registry.json_values import Validation
from spark_jobs.registry.schemas import JSON, Decoding, Reference, Schema, SchemaError
from spark_jobs.registry.wire_format import with_header


def schema(content: Any, **references: Any) -> Schema:
    """Keywords are the names of references, with `_` for a dot."""
    referred = (Reference(name.replace("_", "."), json.dumps(each)) for name, each in references.items())
    return Schema(json.dumps(content), JSON, tuple(referred))


def type_of(content: Any, **references: Any) -> str:
    return str(column_type(schema(content, **references)).simpleString())


def packed(number: int, value: Any) -> bytes:
    return with_header(number, json.dumps(value).encode())


def decode(reader: Schema, writers: Mapping[int, Schema], *values: bytes | None) -> Any:
    written = {number: writer_schema(each) for number, each in writers.items()}
    decoder = make_decoder(pickle.loads(pickle.dumps(Decoding(reader, written, "subject t-value"))))
    found, reasons = decoder.decode(pa.array(values, pa.binary()))
    assert found.type == decoder.type
    return found.to_pylist(), reasons


def properties(**kinds: Any) -> dict[str, Any]:
    return {"type": "object", "properties": kinds}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TREE = properties(name=STRING, children={"type": "array", "items": {"$ref": "#"}})


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (properties(a=STRING, b=INTEGER, c={"type": "number"}), "struct<a:string,b:bigint,c:double>"),
        (properties(a={"type": "boolean"}, b={"type": ["null", "integer"]}), "struct<a:boolean,b:bigint>"),
        (properties(a={"type": "string", "format": "date-time"}), "struct<a:string>"),
        ({"properties": {"a": INTEGER}}, "struct<a:bigint>"),
        (properties(a={"type": ["integer", "number"]}), "struct<a:double>"),
        (properties(a={"type": ["integer", "string"]}, b={}, c=True), "struct<a:string,b:string,c:string>"),
        (
            properties(a={"enum": ["x", "y"]}, b={"const": "z"}, c={"enum": [1, "x"]}),
            "struct<a:string,b:string,c:string>",
        ),
        ({"type": "array", "items": INTEGER}, "array<bigint>"),
        ({"type": "array", "items": [INTEGER, STRING]}, "string"),
        ({"type": "array", "prefixItems": [INTEGER], "items": STRING}, "string"),
        ({"type": "object", "additionalProperties": INTEGER}, "map<string,bigint>"),
        ({"type": "object", "additionalProperties": False}, "string"),
        ({"type": "object"}, "string"),
        (properties(a=STRING, A=STRING), "string"),
        (properties(a={"oneOf": [{"type": "null"}, properties(b=INTEGER)]}), "struct<a:struct<b:bigint>>"),
        (properties(a={"anyOf": [INTEGER, STRING]}), "struct<a:string>"),
        (properties(a={"allOf": [properties(b=INTEGER)]}), "struct<a:struct<b:bigint>>"),
        ({**properties(a={"$ref": "#/definitions/i"}), "definitions": {"i": INTEGER}}, "struct<a:bigint>"),
        ({**properties(a={"$ref": "#/$defs/a~1b%25"}), "$defs": {"a/b%": INTEGER}}, "struct<a:bigint>"),
        (TREE, "struct<name:string,children:array<string>>"),
        (True, "string"),
        (False, "string"),
    ],
)
def test_types(content: Any, kind: str) -> None:
    assert type_of(content) == kind


def test_references() -> None:
    money = {
        "$id": "https://shop/money.json",
        **properties(currency={"$ref": "#/$defs/code"}),
        "$defs": {"code": STRING},
    }
    order = {
        "$id": "https://shop/order.json",
        **properties(
            price={"$ref": "money.json"}, code={"$ref": "money.json#/$defs/code"}, old={"$ref": "#/$defs/own"}
        ),
        "$defs": {"own": INTEGER},
    }
    assert type_of(order, money_json=money) == "struct<price:struct<currency:string>,code:string,old:bigint>"
    assert type_of({"$ref": "https://shop/money.json"}, money_json=money) == "struct<currency:string>"
    good, bad = {"price": {"currency": "EUR"}}, {"price": {"currency": 5}}
    reader = schema(order, money_json=money)
    found, reasons = decode(reader, {1: reader}, packed(1, good), packed(1, bad))
    assert found == [{"price": {"currency": "EUR"}, "code": None, "old": None}, None]
    assert reasons[1].startswith("not valid by the schema 1: /price/currency: 5 is not of type")


FLIGHT = {
    "type": "object",
    "required": ["carrier"],
    "properties": {
        "carrier": {"type": "string", "pattern": "^[A-Z0-9]{2}$"},
        "delay": {"type": ["null", "integer"], "minimum": -100},
        "weight": {"type": "number"},
        "late": {"type": "boolean"},
        "tags": {"type": "array", "items": STRING, "maxItems": 2},
        "counts": {"type": "object", "additionalProperties": INTEGER},
        "inner": properties(x=INTEGER),
        "any": {"type": ["object", "string"]},
    },
}
EMPTY = dict.fromkeys(FLIGHT["properties"])  # type: ignore[attr-defined]


def test_values() -> None:
    row = {
        "carrier": "UA",
        "delay": -3.0,
        "weight": 5,
        "late": True,
        "tags": ["a", "ü"],
        "counts": {"x": 1},
        "inner": {"x": 1 << 40, "more": 1},
        "any": {"k": [1, "ü"]},
        "besides": 1,
    }
    reader = schema(FLIGHT)
    found, reasons = decode(reader, {7: reader}, packed(7, row), packed(7, {"carrier": "AA"}), None)
    assert reasons == [None, None, None]
    assert found == [
        {
            "carrier": "UA",
            "delay": -3,
            "weight": 5.0,
            "late": True,
            "tags": ["a", "ü"],
            "counts": [("x", 1)],
            "inner": {"x": 1 << 40},
            "any": '{"k": [1, "ü"]}',
        },
        {**EMPTY, "carrier": "AA"},
        None,
    ]


def test_records_of_other_versions_are_validated_by_theirs_and_read_by_the_readers() -> None:
    old, new = schema(properties(a=STRING, gone=STRING)), schema({**properties(a=STRING, b=INTEGER), "required": ["b"]})
    texts = schema(properties(b=STRING))
    values = packed(1, {"a": "x", "gone": "y"}), packed(2, {"a": "x"}), packed(3, {"b": "z"})
    found, reasons = decode(new, {1: old, 2: new, 3: texts}, *values)
    assert found == [{"a": "x", "b": None}, None, None]
    assert reasons == [
        None,
        'not valid by the schema 2: the value: "b" is a required property',
        "valid by the schema 3, but not of the reader's: field b: 'z' is no whole number",
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", "not in the schema registry's wire format: 2 bytes"),
        (with_header(1, b""), "not JSON: "),
        (with_header(1, b"{"), "not JSON: "),
        (with_header(1, b"\xff"), "not JSON: 'utf-8' codec"),
        (with_header(1, b'{"weight": NaN, "carrier": "UA"}'), "not JSON: NaN is no number of JSON"),
        (with_header(1, b"[" * 100_000), "not JSON: "),
        (with_header(1, b"{}"), 'not valid by the schema 1: the value: "carrier" is a required property'),
        (packed(1, {"carrier": "x"}), "not valid by the schema 1: /carrier: "),
        (
            packed(1, {"carrier": "UA", "delay": 1 << 70}),
            "valid by the schema 1, but not of the reader's: field delay: ",
        ),
        (packed(1, {"carrier": "UA", "tags": ["a", 5]}), "not valid by the schema 1: /tags/1: "),
        (packed(2, {}), "unknown schema id 2: subject t-value has no such schema"),
        (packed(3, {}), "the schema 3 cannot be decoded with: not a JSON Schema: "),
    ],
)
def test_each_kind_of_damage_has_a_reason_of_its_own(value: bytes, reason: str) -> None:
    writers = {1: schema(FLIGHT), 3: schema({"type": "colour"})}
    good = packed(1, {"carrier": "UA"})
    found, reasons = decode(schema(FLIGHT), writers, good, value, good)
    assert [each is None for each in found] == [False, True, False]
    assert reasons[0] is None and reasons[2] is None
    assert reasons[1] is not None and reasons[1].startswith(reason), reasons[1]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("aB", max_size=3) | st.sampled_from([0.5, 2.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)
GENERAL = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {"n": {"anyOf": [{"type": "null"}, {"type": "integer", "maximum": 3}]}},
    "type": ["object", "array", "integer"],
    "properties": {
        "a": {"$ref": "#/definitions/n"},
        "b": {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True},
    },
    "patternProperties": {"^c": {"type": "string", "pattern": "^a+$"}},
    "additionalProperties": False,
    "items": {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
}


@given(st.lists(JSON_VALUES, max_size=20))
def test_what_is_valid_is_what_jsonschema_says(values: list[Any]) -> None:
    other = jsonschema.Draft7Validator(GENERAL)
    reader = schema(GENERAL)
    _, reasons = decode(schema({}), {1: reader}, *(packed(1, each) for each in values))
    assert [reason is None for reason in reasons] == [other.is_valid(each) for each in values]


@given(st.lists(st.binary(max_size=20)))
def test_no_bytes_stop_a_decoder(payloads: list[bytes]) -> None:
    decode(schema(FLIGHT), {1: schema(FLIGHT)}, *(with_header(1, each) for each in payloads), *payloads)


# hostile schemas


def doubled(count: int, keyword: str) -> dict[str, Any]:
    """Definitions of which each applies the one before it twice."""
    others = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, count)}
    return {"$ref": f"#/$defs/d{count - 1}", "$defs": {"d0": {"type": "integer"}, **others}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (doubled(30, "allOf"), "has more than 10000 schemas, with each reference replaced"),
        (doubled(30, "prefixItems"), "has more than 10000 schemas, with each reference replaced"),
        ({"$ref": "#"}, "refers to itself at the same place"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
            "refers to itself at the same place",
        ),
        ({"enum": list(range(20_000))}, "has more than 10000 schemas"),
        ({"pattern": "("}, "not a JSON Schema: "),
        ({"type": 5}, "not a JSON Schema: "),
        ({"allOf": 5}, "not a JSON Schema: its allOf is no list"),
        ({"properties": 5}, "not a JSON Schema: its properties are no object"),
        ({"$ref": 5}, "not a JSON Schema: 5 is no reference"),
        (
            {"$ref": "http://127.0.0.1:1/x.json"},
            r"refers to http://127\.0\.0\.1:1/x\.json, which is not among its references",
        ),
        (
            {"$defs": {"a": {"$ref": "file:///etc/passwd"}}},
            "refers to file:///etc/passwd, which is not among its references",
        ),
        ({"$ref": "#name"}, "refers to #name: give a JSON pointer instead of an anchor"),
        ({"$ref": "#/$defs/x"}, r"refers to #/%24defs/x, where there is no schema"),
        ({"$dynamicRef": "#x"}, r"has a \$dynamicRef"),
        ({"$defs": {"a": {"$id": "b.json", "$ref": "#/$defs/c"}}}, r"has an \$id of its own"),
    ],
)
def test_schemas_that_cannot_be_validated_with(content: Any, message: str) -> None:
    started_s = time.process_time()
    with pytest.raises(SchemaError, match=message):
        Validation(schema(content))
    assert time.process_time() - started_s < 5


@pytest.mark.parametrize("text", ["{", "5", "[]", '"x"', "[" * 100_000])
def test_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(SchemaError, match="not a JSON Schema: "):
        column_type(Schema(text, JSON))


BINARY = properties(left={"$ref": "#"}, right={"$ref": "#"})
TWICE = {"allOf": [properties(c={"$ref": "#"}), properties(c={"$ref": "#"})]}
VARIANTS = {"anyOf": [properties(kind={"const": each}, inner={"$ref": "#"}) for each in "abc"]}
FIBONACCI = {
    "$defs": {"second": properties(c={"$ref": "#"})},
    "allOf": [properties(c={"$ref": "#"}), properties(c={"$ref": "#/$defs/second"})],
}


@pytest.mark.parametrize(
    ("content", "growth"),
    [(FLIGHT, 1), (TREE, 1), (BINARY, 1), (TWICE, 2), (VARIANTS, 3), (FIBONACCI, 2), (GENERAL, 1)],
)
def test_growth_by_nesting(content: Any, growth: int) -> None:
    assert measure(JsonDocument(schema(content))).growth == growth


def test_a_value_that_would_be_validated_for_years_is_refused() -> None:
    def nested(depth: int) -> Any:
        value: Any = {}
        for _ in range(depth):
            value = {"c": value}
        return value

    started_s = time.process_time()
    found, reasons = decode(schema({}), {1: schema(TWICE)}, packed(1, nested(5)), packed(1, nested(200)))
    assert [each is None for each in found] == [False, True]
    assert reasons == [
        None,
        "not valid by the schema 1: it is too large or nested too deeply to be validated by its schema",
    ]
    assert time.process_time() - started_s < 5


def test_a_pattern_that_would_run_for_years_is_stopped() -> None:
    started_s = time.process_time()
    hostile = schema({"type": "string", "pattern": "^(?=(a+)+$)(a|aa)+b$"})
    found, reasons = decode(schema(STRING), {1: hostile}, packed(1, "a" * 60))
    assert found == [None] and reasons[0].startswith("not valid by the schema 1: ")
    assert time.process_time() - started_s < 5


def test_a_small_value_that_stands_for_a_large_one() -> None:
    reader = schema({"type": "array", "items": properties(**{f"f{n}": INTEGER for n in range(2000)})})
    found, reasons = decode(reader, {1: reader}, packed(1, [{}] * 10), packed(1, [{}] * 1000))
    assert [each is None for each in found] == [False, True]
    assert reasons[1] == "valid by the schema 1, but not of the reader's: it has more than 1000000 values"


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "find_spec", lambda name: None)
    with pytest.raises(SchemaError, match=r"JSON schemas need a library .* pip install 'kafkalite\[json-schema\]'"):
        prepare_schemas([schema({})])

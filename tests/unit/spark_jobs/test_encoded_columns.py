"""The sink's options for a schema registry, and the columns that it takes for a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from spark_jobs.encoded_columns import ColumnEncoders, check_encoded_types, find_encodings
from spark_jobs.options import OptionError, SinkOptions
from spark_jobs.registry.client import RegistryError, UnknownSchemaError
from spark_jobs.registry.lookup import ChoiceError
from spark_jobs.registry.schemas import Encoding, Schema
from spark_jobs.registry.wire_format import with_header
from spark_jobs.writer import check_columns
from tests.unit.spark_jobs.registry.http_registry import http_registry

VERSION = {"subject": "t-value", "version": 2, "id": 7, "schema": '"string"'}
LATEST = "/subjects/t-value/versions/latest"


def options(url: str, **more: str) -> dict[str, str]:
    return {"topic": "t", "valueFormat": "avro", "schema.registry.url": url, **more}


def test_the_schema_is_the_latest_or_a_version() -> None:
    expected = {"value": Encoding(7, Schema('"string"'), "subject t-value")}
    old = {**VERSION, "version": 1, "id": 3, "schema": '"int"'}
    with http_registry({LATEST: VERSION, "/subjects/t-value/versions/1?deleted=true": old}) as url:
        assert find_encodings(options(url)) == expected
        assert find_encodings(options(url, topic="u", valueSubject="t-value")) == expected
        assert find_encodings(options(url, valueSchema="1"))["value"].id == 3
    assert find_encodings({"topic": "t"}) == {}


def test_a_file_is_registered_only_if_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "key.avsc"
    file.write_text('"long"')
    posts: list[tuple[str, Any]] = []
    given = {"valueSchema": f"@{file}"}
    with http_registry({}, posted=posts, answers={"/subjects/t-value/versions": {"id": 9}}) as url:
        with pytest.raises(UnknownSchemaError, match="the schema registry has no such subject or version"):
            find_encodings(options(url, **given))
        assert find_encodings(options(url, **given, valueRegister="true"))["value"].id == 9
    body = {"schema": '"long"', "schemaType": "AVRO"}
    assert posts == [("/subjects/t-value", body), ("/subjects/t-value/versions", body)]
    with (
        http_registry({}, posted=[], answers={"/subjects/t-value": {"id": 8}}) as url,
    ):
        assert find_encodings(options(url, **given))["value"].id == 8


def test_a_schema_that_the_registry_refuses(tmp_path: Path) -> None:
    file = tmp_path / "value.avsc"
    file.write_text('"long"')
    answers = {"/subjects/t-value/versions": (409, {"message": "incompatible"})}
    with (
        http_registry({}, posted=[], answers=answers) as url,
        pytest.raises(RegistryError, match=r"refuses the schema \(incompatible\)"),
    ):
        find_encodings(options(url, valueSchema=f"@{file}", valueRegister="true"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"topic": ""}, OptionError, "Option 'valueSubject' must be specified where no option gives the topic"),
        ({"keyRegister": "true"}, OptionError, "Option 'keyRegister' needs the option 'keyFormat'"),
        ({"valueFormat": "xml"}, OptionError, "Option 'valueFormat' is 'xml', none of"),
        (
            {"valueRegister": "true"},
            ChoiceError,
            "the schema latest for values is registered already: give @ and a file",
        ),
        ({"valueRegister": "maybe"}, OptionError, "valueRegister"),
    ],
)
def test_options_that_make_no_sense(change: dict[str, str], error: type[Exception], message: str) -> None:
    with http_registry({LATEST: VERSION}) as url, pytest.raises(error, match=message):
        find_encodings(options(url, **change))


FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "double"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
ENCODING = Encoding(7, Schema(json.dumps(FLIGHT)), "subject t-value")


def struct(**kinds: str) -> StructType:
    inner = StructType()
    for name, kind in kinds.items():
        inner.add(name, kind)
    return StructType().add("value", inner)


def test_columns_that_do() -> None:
    check_encoded_types(struct(carrier="string", delay="integer"), {"value": ENCODING})
    check_encoded_types(struct(delay="short"), {"value": ENCODING})
    whole = StructType().add("value", StructType().add("carrier", "string"))
    check_columns(whole, SinkOptions("t", {}), {"value": ENCODING})
    with pytest.raises(OptionError, match="value attribute unsupported type struct"):
        check_columns(whole, SinkOptions("t", {}))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("key", "string"), "Option 'valueFormat' needs a column 'value'"),
        (
            struct(colour="string"),
            r"has no field for the column value\.colour; its fields are carrier, delay, tags, counts",
        ),
        (
            struct(delay="string"),
            r"column value\.delay is string; the schema 7 of subject t-value wants bigint: cast it",
        ),
        (struct(tags="string"), r"column value\.tags is string; .* wants array<double>: cast it"),
        (StructType().add("value", "string"), "column value is string; .* wants struct<"),
    ],
)
def test_columns_that_do_not(schema: StructType, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_encoded_types(schema, {"value": ENCODING})


def test_a_column_becomes_binary() -> None:
    encoders = ColumnEncoders({"value": Encoding(7, Schema('"string"'), "subject t-value")})
    assert encoders.encode("value", pa.array(["a", None])).to_pylist() == [with_header(7, b"\x02a"), None]
    assert encoders.encode("key", pa.array(["a"])).to_pylist() == ["a"]

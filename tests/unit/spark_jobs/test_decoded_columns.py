"""The source's options for a schema registry, and the columns that they add."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.decoded_columns import ColumnDecoders, DecodingFinder, decoded_fields, registry_columns
from spark_jobs.options import OptionError
from spark_jobs.registry.lookup import Choice
from spark_jobs.registry.schemas import Decoding, Schema
from spark_jobs.registry.wire_format import with_header
from spark_jobs.rows import check_schema, client_columns, converter

GIVEN = {"subscribe": "t", "valueFormat": "avro", "schema.registry.url": "http://r:8081"}


def test_options() -> None:
    found = registry_columns(
        {**GIVEN, "valueschema": "3", "KEYFORMAT": "Avro", "schema.registry.basic.auth.user.info": "me:secret"}
    )
    assert found is not None and found.topic == "t"
    assert found.choices == {"key": Choice("key", "avro"), "value": Choice("value", "avro", "3")}
    assert (found.registry.url, found.registry.user_info) == ("http://r:8081", "me:secret")
    assert registry_columns({"subscribe": "t"}) is None
    assert decoded_fields(None) == []


def test_user_info_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "info"
    file.write_text("me:secret\n")
    found = registry_columns({**GIVEN, "schema.registry.basic.auth.user.info.file": str(file)})
    assert found is not None and found.registry.user_info == "me:secret"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valueFormat": "json"}, "Option 'valueFormat' is 'json', none of bytes, avro, protobuf, json-schema"),
        ({"schema.registry.url": "r:8081"}, "is not like http://localhost:8081"),
        ({"keyMessage": "a.B"}, "Option 'keyMessage' needs the option 'keyFormat'"),
        ({"keySchema": "1"}, "Option 'keySchema' needs the option 'keyFormat'"),
        ({"subscribe": "t,u"}, "Option 'valueSubject' must be specified where more than one topic may be read"),
        ({"schema.registry.basic.auth.user.info.file": "/nowhere"}, "cannot read /nowhere"),
        ({"schema.registry.basic.auth.user.info": "secret"}, "is not like user:password"),
    ],
)
def test_options_that_make_no_sense(change: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        registry_columns({**GIVEN, **change})


def test_a_registry_has_to_be_named() -> None:
    with pytest.raises(OptionError, match=r"Option 'valueFormat' needs the option 'schema\.registry\.url'"):
        registry_columns({"subscribe": "t", "valueFormat": "avro"})


def test_rows_have_the_value_or_the_reason() -> None:
    schema = StructType().add("offset", "long").add("decodedValue", "integer").add("valueError", "string")
    assert client_columns(schema) == ["offset", "value"]
    decoders = ColumnDecoders({"value": Decoding(Schema(json.dumps("int")), {1: Schema(json.dumps("int"))})})
    values = [with_header(1, b"\x0a"), None, b"?"]
    batch = pa.record_batch({"offset": pa.array([1, 2, 3]), "value": pa.array(values, pa.large_binary())})
    found = converter(schema, "t", decoders.decode)(batch)
    assert found.column("decodedValue").to_pylist() == [5, None, None]
    assert [error is None for error in found.column("valueError").to_pylist()] == [True, True, False]


def test_columns_need_their_option() -> None:
    schema = StructType().add("decodedValue", "string")
    with pytest.raises(OptionError, match="column decodedValue needs the option 'valueFormat'"):
        check_schema(schema)
    check_schema(schema, [StructField("decodedValue", StringType())])
    with pytest.raises(OptionError, match="column decodedValue is binary, not string"):
        check_schema(schema, [StructField("decodedValue", StructType().add("x", "binary")["x"].dataType)])


def test_what_travels_to_executors_has_no_password() -> None:
    columns = registry_columns({**GIVEN, "schema.registry.basic.auth.user.info": "me:secret"})
    finder = DecodingFinder(columns, StructType().add("decodedValue", "integer"))
    assert b"secret" not in pickle.dumps(finder)
    assert pickle.loads(pickle.dumps(finder)).find() == {}

"""Record batches of the client become rows with exactly the schema that Spark expects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkalite.client.consumer.record_columns import FIELDS
from spark_jobs.options import OptionError
from spark_jobs.rows import check_schema, client_columns, converter, declared_schema, source_schema


def client_batch(columns: Any = tuple(FIELDS)) -> Any:
    rows = {
        "key": [b"k", None],
        "value": [None, b"v"],
        "partition": [3, 3],
        "offset": [7, 9],
        "timestamp": [1_234_567, 1_234_568],
        "timestamp_type": [0, 1],
        "headers": [[], [{"key": "a", "value": None}, {"key": "a", "value": b"x"}]],
    }
    return pyarrow.record_batch({name: pyarrow.array(rows[name], FIELDS[name]) for name in columns})


def test_all_columns() -> None:
    schema = source_schema(True)
    found = converter(schema, "events")(client_batch(client_columns(schema)))
    assert found.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert found.to_pylist() == [
        {
            "key": b"k",
            "value": None,
            "topic": "events",
            "partition": 3,
            "offset": 7,
            "timestamp": datetime(1970, 1, 1, 0, 20, 34, 567_000, tzinfo=UTC),
            "timestampType": 0,
            "headers": None,
        },
        {
            "key": None,
            "value": b"v",
            "topic": "events",
            "partition": 3,
            "offset": 9,
            "timestamp": datetime(1970, 1, 1, 0, 20, 34, 568_000, tzinfo=UTC),
            "timestampType": 1,
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"x"}],
        },
    ]


@pytest.mark.parametrize("headers", [[[], []], [[{"key": "a", "value": b"x"}], [{"key": "b", "value": b"y"}]]])
def test_headers_of_none_and_of_all(headers: list[Any]) -> None:
    batch = client_batch()
    batch = batch.set_column(6, "headers", pyarrow.array(headers, FIELDS["headers"]))
    found = converter(StructType([source_schema(True)["headers"]]), "t")(batch)
    assert found.column("headers").to_pylist() == [each or None for each in headers]


def test_a_pruned_schema_asks_the_client_for_no_more() -> None:
    schema = StructType().add("topic", "string").add("timestamp", "timestamp").add("value", "binary", nullable=False)
    check_schema(schema)
    assert client_columns(schema) == ["offset", "timestamp", "value"], "offsets tell where to go on"
    found = converter(schema, "t")(client_batch(client_columns(schema)).slice(1))
    assert found.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert found.column("value").to_pylist() == [b"v"]


@pytest.mark.parametrize(
    "name, kind, message",
    [
        ("colour", "string", "the source has no column colour; its columns are key, value, topic"),
        ("value", "string", "column value is binary, not string; cast it in the query"),
        ("partition", "long", "column partition is int, not bigint"),
    ],
)
def test_columns_that_there_are_not(name: str, kind: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_schema(StructType().add(name, kind))


ODD = [2**63 - 1, -(2**63), 1371254400000 * 10**6, 1371254400000 * 1000, 253_402_300_800_000, -62_135_596_800_001]
SHOWN = [253_402_300_799_999, -62_135_596_800_000, -1, -5, 0, 1371254400000]


def test_timestamps_that_spark_cannot_show_are_null_and_their_number_is_there() -> None:
    times_ms = [*ODD, *SHOWN]
    batch = pyarrow.record_batch({"timestamp": pyarrow.array(times_ms, pyarrow.int64()).cast(FIELDS["timestamp"])})
    schema = declared_schema(["timestamp", "timestampMs"])
    check_schema(schema)
    assert client_columns(schema) == ["offset", "timestamp"]
    found = converter(schema, "t")(batch)
    assert found.column("timestampMs").to_pylist() == times_ms
    micros = found.column("timestamp").cast(pyarrow.int64()).to_pylist()
    assert micros == [*(None for _ in ODD), *(each * 1000 for each in SHOWN)]
    assert found.column("timestamp").slice(len(ODD)).to_pylist()[0].year == 9999
    empty = converter(schema, "t")(batch.slice(0, 0))
    assert empty.num_rows == 0

"""The rows of the source: their columns, which are those of Spark's own Kafka source, and how the client's record batches become them.

A query may declare fewer columns with `.schema(…)`; then only these leave the executors.

A record's time may be any 64-bit number, for brokers take what producers write, also nanoseconds. Spark's timestamps are those of the
years 1 to 9999, so `timestamp` is null for all others (Spark's own source fails there). The number itself is in `timestampMs`, a column
that queries get when they declare it.

For the nightly jobs there are RANGE_COLUMNS, which they declare together: then each range of offsets ends with a row that is no record.
In it RANGE_END is the offset behind the range, RANGE_RECORDS how many records the reader gave, `partition` and `offset` are those of the
range's begin, and all other columns are null; in the rows of records both are null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_jobs.batch.schemas import arrow_type
from spark_jobs.decoded_columns import DECODED_COLUMNS
from spark_jobs.options import OptionError

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_SPARK_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
TIMESTAMP_MS: Final = "timestampMs"
RANGE_END: Final = "rangeEnd"
RANGE_RECORDS: Final = "rangeRecords"
RANGE_COLUMNS: Final = (RANGE_END, RANGE_RECORDS)
_DECLARED_TYPES: Mapping[str, DataType] = dict.fromkeys((TIMESTAMP_MS, *RANGE_COLUMNS), LongType())
"""Columns that are only there when a query declares them."""
_CLIENT_NAMES = {"timestampType": "timestamp_type", TIMESTAMP_MS: "timestamp"}

FIRST_TIMESTAMP_MS: Final = -62_135_596_800_000
LAST_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The first and last millisecond of the years 1 to 9999 in UTC, the range of Spark's TimestampType."""
_ARROW_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_ARROW_TYPES: Mapping[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _ARROW_HEADER)),
    TIMESTAMP_MS: pa.int64(),
    RANGE_END: pa.int64(),
    RANGE_RECORDS: pa.int64(),
}


def source_schema(with_headers: bool) -> StructType:
    """Return all columns of the source."""
    return StructType(
        [StructField(name, kind) for name, kind in _SPARK_TYPES.items() if with_headers or name != "headers"]
    )


def declared_schema(names: Sequence[str]) -> StructType:
    """Return the schema of a query that declares these columns."""
    kinds = {**_SPARK_TYPES, **_DECLARED_TYPES}
    return StructType([StructField(name, kinds[name]) for name in names])


def check_schema(schema: StructType, decoded: Sequence[StructField] = ()) -> None:
    """Raise OptionError when `.schema(…)` asks for a column that the source does not have, or of another type.

    `decoded` are those of `decoded_columns`.
    """
    kinds = {**_SPARK_TYPES, **_DECLARED_TYPES, **{each.name: each.dataType for each in decoded}}
    for field in schema.fields:
        kind = kinds.get(field.name)
        if kind is None and field.name in DECODED_COLUMNS:
            raise OptionError(f"column {field.name} needs the option '{DECODED_COLUMNS[field.name]}Format', like avro")
        if kind is None:
            listed = ", ".join([*_SPARK_TYPES, *(each.name for each in decoded), TIMESTAMP_MS])
            raise OptionError(f"the source has no column {field.name}; its columns are {listed}")
        if field.dataType.simpleString() != kind.simpleString():
            raise OptionError(
                f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}; cast it in the query"
            )


def client_columns(schema: StructType) -> list[str]:
    """Return the columns of `Consumer.read_range` that rows of `schema` are made of; offsets always, they tell how far a task came."""
    names = [
        _CLIENT_NAMES.get(name) or DECODED_COLUMNS.get(name, name)
        for name in schema.names
        if name not in ("topic", *RANGE_COLUMNS)
    ]
    return list(dict.fromkeys(["offset", *names]))


def converter(
    schema: StructType, topic: str, decode: Callable[[Any], Mapping[str, Any]] = lambda batch: {}
) -> Callable[[Any], Any]:
    """Return the function that makes a record batch of `schema` from one of `Consumer.read_range` for a partition of `topic`.

    `decode` gives the arrays of `decoded_columns` for one.
    """
    arrow_schema = _arrow_schema(schema)
    name = pa.scalar(topic, pa.string())

    def column(batch: Any, decoded: Mapping[str, Any], field: str) -> Any:
        if field in decoded:
            return decoded[field]
        if field == "topic":
            return pa.repeat(name, batch.num_rows)
        if field in RANGE_COLUMNS:
            return pa.nulls(batch.num_rows, _ARROW_TYPES[field])
        found = batch.column(_CLIENT_NAMES.get(field, field))
        if field == "headers":
            found = _none_for_empty(found)
        elif field == "timestamp":
            found = _none_for_odd(found)
        return found.cast(_ARROW_TYPES[field])

    def convert(batch: Any) -> Any:
        decoded = decode(batch)
        arrays = [column(batch, decoded, field) for field in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)

    return convert


def range_end_row(schema: StructType, partition: int, start: int, end: int, records: int) -> Any:
    """Return the row with the counts of a range, as a record batch of `schema`; None unless the query declares RANGE_END."""
    if RANGE_END not in schema.names:
        return None
    row = {"partition": partition, "offset": start, RANGE_END: end, RANGE_RECORDS: records}
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names}], schema=_arrow_schema(schema))


def _arrow_schema(schema: StructType) -> Any:
    return pa.schema(
        [
            pa.field(each.name, _ARROW_TYPES.get(each.name) or arrow_type(each.dataType), each.nullable)
            for each in schema.fields
        ]
    )


def _none_for_odd(timestamps: Any) -> Any:
    """Put null where a timestamp is none of Spark's. (Nothing is copied where all are, which is nearly always.)"""
    times_ms = timestamps.cast(pa.int64())
    bounds = pa.compute.min_max(times_ms).as_py()
    if bounds["min"] is None or (bounds["min"] >= FIRST_TIMESTAMP_MS and bounds["max"] <= LAST_TIMESTAMP_MS):
        return timestamps
    fits = pa.compute.and_(
        pa.compute.greater_equal(times_ms, FIRST_TIMESTAMP_MS), pa.compute.less_equal(times_ms, LAST_TIMESTAMP_MS)
    )
    return pa.compute.if_else(fits, timestamps, pa.scalar(None, timestamps.type))


def _none_for_empty(headers: Any) -> Any:
    """Put null where a record has no headers, as in Spark's own source."""
    without = pa.compute.equal(pa.compute.list_value_length(headers), 0)
    if not pa.compute.any(without).as_py():
        return headers
    return pa.compute.if_else(without, pa.scalar(None, headers.type), headers)

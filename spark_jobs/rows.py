"""The rows of the source: their columns, which are those of Spark's own Kafka source, and how the client's record batches become them.

A query may declare fewer columns with `.schema(…)`; then only these leave the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
_CLIENT_NAMES = {"timestampType": "timestamp_type"}
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
}


def source_schema(with_headers: bool) -> StructType:
    """All columns of the source."""
    return StructType(
        [StructField(name, kind) for name, kind in _SPARK_TYPES.items() if with_headers or name != "headers"]
    )


def check_schema(schema: StructType) -> None:
    """OptionError when `.schema(…)` asks for a column that the source does not have, or of another type."""
    for field in schema.fields:
        kind = _SPARK_TYPES.get(field.name)
        if kind is None:
            raise OptionError(f"the source has no column {field.name}; its columns are {', '.join(_SPARK_TYPES)}")
        if field.dataType.simpleString() != kind.simpleString():
            raise OptionError(
                f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}; cast it in the query"
            )


def client_columns(schema: StructType) -> list[str]:
    """The columns of `Consumer.read_range` that rows of `schema` are made of; offsets always, they tell how far a task came."""
    names = [_CLIENT_NAMES.get(name, name) for name in schema.names if name != "topic"]
    return list(dict.fromkeys(["offset", *names]))


def converter(schema: StructType, topic: str) -> Callable[[Any], Any]:
    """What makes a record batch of `schema` from one of `Consumer.read_range` for a partition of `topic`."""
    arrow_schema = pa.schema([pa.field(each.name, _ARROW_TYPES[each.name], each.nullable) for each in schema.fields])
    name = pa.scalar(topic, pa.string())

    def column(batch: Any, field: str) -> Any:
        if field == "topic":
            return pa.repeat(name, batch.num_rows)
        found = batch.column(_CLIENT_NAMES.get(field, field))
        return (_none_for_empty(found) if field == "headers" else found).cast(_ARROW_TYPES[field])

    def convert(batch: Any) -> Any:
        return pa.RecordBatch.from_arrays([column(batch, field) for field in schema.names], schema=arrow_schema)

    return convert


def _none_for_empty(headers: Any) -> Any:
    """Null where a record has no headers, as in Spark's own source."""
    without = pa.compute.equal(pa.compute.list_value_length(headers), 0)
    if not pa.compute.any(without).as_py():
        return headers
    return pa.compute.if_else(without, pa.scalar(None, headers.type), headers)

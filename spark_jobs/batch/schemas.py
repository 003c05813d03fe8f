"""The types of decoded fields: from Spark's to Arrow's, the same in every release of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import types as T

_SIMPLE: Final[Mapping[type[T.DataType], pa.DataType]] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Return Arrow's type for one of Spark's. ValueError for types that values cannot be decoded to."""
    if isinstance(kind, T.StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in kind.fields])
    if isinstance(kind, T.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, T.MapType):
        return pa.map_(arrow_type(kind.keyType), pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull))
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = _SIMPLE.get(type(kind))
    if found is None:
        raise ValueError(f"values cannot be decoded to the type {kind.simpleString()}")
    return found

"""The types of columns and the decoders of values, by the type of the schema that they are read with. Pure."""

from __future__ import annotations

from typing import Any

from spark_jobs.batch.decoders import BatchDecoder
from spark_jobs.registry.avro_types import ParsedAvro
from spark_jobs.registry.avro_values import AvroDecoder
from spark_jobs.registry.schemas import Decoding, Schema


def column_type(reader: Schema) -> Any:
    """Return Spark's type of a column that is read with a schema. SchemaError for all that keeps it from being one."""
    parsed = ParsedAvro(reader)
    parsed.fill_defaults()
    return parsed.type


def make_decoder(decoding: Decoding) -> BatchDecoder:
    """Return the decoder of a column, for which `column_type` has found a type."""
    return AvroDecoder(decoding)

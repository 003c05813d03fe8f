"""Avro values in the wire format to typed columns, batch by batch, resolved to a reader's schema by Avro's rules. Pure.

fastavro decodes record by record: a record's end is known only by decoding it, so a check that all of its bytes were used is what keeps a
wrong schema from giving wrong rows. Arrow then makes the column of the whole batch in one go (`decoders.BatchDecoder`).
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from spark_jobs.batch.decoders import BatchDecoder, UndecodableError
from spark_jobs.batch.schemas import arrow_type
from spark_jobs.registry.avro_conversion import Convert, conversion
from spark_jobs.registry.avro_types import VALUE, ParsedAvro
from spark_jobs.registry.schemas import Decoding, Schema
from spark_jobs.registry.wire_format import HEADER_BYTES, WireFormatError, schema_id
from spark_jobs.registry.writer_schemas import WriterSchemas


@dataclass(frozen=True, slots=True)
class _Reading:
    """How values of one writer's schema are read: `reader` is None where it is the same schema."""

    writer: Any
    reader: Any
    with_names: bool
    convert: Convert | None


class AvroDecoder(BatchDecoder):
    """Decodes values to the type of the reader's schema. SchemaError when that cannot be a column."""

    def __init__(self, decoding: Decoding) -> None:
        self._reader = ParsedAvro(decoding.reader)
        self._reader.fill_defaults()
        self._decoding = decoding
        self._readings = WriterSchemas(decoding, self._make_reading)
        super().__init__(arrow_type(self._reader.type))

    def parse(self, value: bytes) -> Any:
        try:
            found = schema_id(value)
        except WireFormatError as problem:
            raise UndecodableError(str(problem)) from None
        stream = BytesIO(value)
        stream.seek(HEADER_BYTES)
        reading = self._readings.find(found)
        try:
            row: Any = fastavro.schemaless_reader(
                stream, reading.writer, reading.reader, return_named_type=reading.with_names
            )
            row = row[VALUE] if reading.convert is None else reading.convert(row[VALUE])
        except Exception as problem:  # fastavro raises whatever its parts raise
            raise UndecodableError(f"not Avro of the schema {found}: {_reason(problem)}") from None
        if (left := len(value) - stream.tell()) != 0:
            raise UndecodableError(f"not Avro of the schema {found}: {left} bytes are left behind its end")
        return row

    def _make_reading(self, schema: Schema) -> _Reading:
        """Return how values of a writer's schema are read. SchemaError."""
        is_readers = schema == self._decoding.reader
        writer = self._reader if is_readers else ParsedAvro(schema)
        # fastavro gives names in unions of the writer, and fill_defaults in those of the reader.
        with_names = writer.has_named_unions() or self._reader.has_named_unions()
        convert = conversion(self._reader, self._reader.tree, with_names)
        return _Reading(writer.record, None if is_readers else self._reader.record, with_names, convert)


def _reason(problem: Exception) -> str:
    if isinstance(problem, EOFError | IndexError):
        return "it ends in the middle, or is of another schema"
    if type(problem).__name__ == "SchemaResolutionError":
        return f"it cannot be read with the reader's schema: {problem!s:.150}"
    return f"{type(problem).__name__}: {problem}"

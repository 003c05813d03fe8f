"""How keys and values are decoded: what the user says, and what executors make a decoder of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import DataType, StringType, StructType

from spark_jobs.batch.decoders import FORMATS_WITH_SCHEMA, BatchDecoder, Decoder
from spark_jobs.batch.failures import BadRequestError
from spark_jobs.batch.schemas import arrow_type
from spark_jobs.registry.decoders import make_decoder
from spark_jobs.registry.lookup import Lookup


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """A column of decoded keys or values: its type, and what makes its decoder in a task."""

    kind: DataType
    make_decoder: Callable[[], BatchDecoder]
    identity: str = ""
    """Equal for columns that decode the same to the same."""


@dataclass(frozen=True, slots=True)
class Format:
    """A name of `decoders.FORMATS`, and for objects the fields as Spark writes them in DDL; or one of `lookup.REGISTRY_FORMATS`."""

    name: str = "bytes"
    fields: str | None = None
    lookup: Lookup | None = None
    """Finds the schemas of a topic, for formats of a schema registry."""

    def check(self) -> None:
        """BadRequestError when the fields are missing or superfluous."""
        if (self.fields is not None) != (self.name in FORMATS_WITH_SCHEMA):
            what = "needs a schema, like 'carrier string, dep_delay int'" if self.fields is None else "has no schema"
            raise BadRequestError(f"the format {self.name} {what}")

    def check_topic(self, topic: str) -> None:
        """Read the schema of the column, so that what is wrong with it is told before anything is done. RegistryError, SchemaError."""
        if self.lookup is not None:
            self.lookup.reader(topic)

    def column(self, topic: str) -> DecodedColumn | None:
        """Return the decoded column of a topic's records that are in the log by now; None for bytes, which stay as they are.

        Needs a Spark session. BadRequestError, RegistryError, SchemaError.
        """
        if self.lookup is not None:
            decoding, found = self.lookup.decoding(topic), self.lookup.spark_type(topic)
            return DecodedColumn(found, partial(make_decoder, decoding), f"{found.simpleString()} {decoding!r}")
        kind = self.spark_type()
        if kind is None:
            return None
        return DecodedColumn(kind, partial(Decoder, self.name, self.arrow_type()), f"{self.name} {self.fields}")

    def arrow_type(self) -> pa.StructType | None:
        """Needs a Spark session. BadRequestError when the fields are missing, superfluous or cannot be read."""
        self.check()
        if self.fields is None:
            return None
        try:
            return arrow_type(StructType.fromDDL(self.fields))
        except Exception as problem:  # whatever Spark's parser raises
            raise BadRequestError(f"{self.fields!r} is no schema: {str(problem).strip().splitlines()[0]}") from None

    def spark_type(self) -> Any:
        """Return the type of the decoded column; None for bytes, which stay as they are."""
        if self.fields is not None:
            self.arrow_type()  # tells what is wrong with the fields
            return StructType.fromDDL(self.fields)
        return StringType() if self.name == "string" else None


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The decoded columns of a topic's records; None where bytes stay as they are."""

    key: DecodedColumn | None
    value: DecodedColumn | None


@dataclass(frozen=True, slots=True)
class Formats:
    """Of a topic's keys and values."""

    key: Format = Format()
    value: Format = Format()

    def validate(self) -> Formats:
        """Return self. BadRequestError when a format lacks its schema or has one that it does not need."""
        for each in (self.key, self.value):
            each.check()
        return self

    def columns(self, topic: str) -> DecodedColumns:
        """Return the decoded columns of a topic's records that are in the log by now. Errors of `Format.column`."""
        return DecodedColumns(self.key.column(topic), self.value.column(topic))

    def check_topic(self, topic: str) -> None:
        """Read the schemas of the columns. RegistryError, SchemaError."""
        for each in (self.key, self.value):
            each.check_topic(topic)

"""The data source `kafkalite`: what Spark asks for readers and writers (PySpark's Python Data Source API)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kafkalite import NAME
from spark_jobs.decoded_columns import decoded_fields, registry_columns
from spark_jobs.encoded_columns import find_encodings
from spark_jobs.options import (
    OptionError,
    SourceOptions,
    batch_options,
    include_headers,
    sink_options,
    stream_options,
)
from spark_jobs.reader import BatchReader
from spark_jobs.rows import source_schema
from spark_jobs.writer import BatchWriter

if TYPE_CHECKING:
    from spark_jobs.stream import StreamWriter
    from spark_jobs.stream_batches import StreamBatches

_SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
_FIRST_SPARK_WITH_LIMITS = (4, 2)
"""Limits of triggers, several batches of Trigger.AvailableNow and Arrow in stream writers came with Spark 4.1 and 4.2."""


class KafkaliteSource(DataSource):
    """The data source `kafkalite` of a session; `spark_jobs.register` makes it known to one."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        fields = source_schema(include_headers(self.options)).fields
        return StructType([*fields, *decoded_fields(registry_columns(self.options))])

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(batch_options(self.options), schema, registry_columns(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise OptionError(
                "Save mode overwrite not allowed for Kafka: a topic can only be appended to. Use mode append."
            )
        return BatchWriter(sink_options(self.options), schema, find_encodings(self.options))

    def streamReader(self, schema: StructType) -> StreamBatches:
        options, columns = stream_options(self.options), registry_columns(self.options)
        if _SPARK < _FIRST_SPARK_WITH_LIMITS:
            from spark_jobs.early_stream import EarlyStreamReader

            _refuse_limits(options)
            return EarlyStreamReader(options, schema, columns=columns)
        from spark_jobs.stream import StreamReader

        return StreamReader(options, schema, columns=columns)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Complete mode (`overwrite`) appends all rows of the result at each trigger, as Spark's own sink."""
        if _SPARK < _FIRST_SPARK_WITH_LIMITS:
            raise OptionError(f"streams into topics need Spark 4.2 or newer, this is {pyspark.__version__}")
        from spark_jobs.stream import StreamWriter

        return StreamWriter(sink_options(self.options), schema, find_encodings(self.options))


def _refuse_limits(options: SourceOptions) -> None:
    given = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    for name, limit in given.items():
        if limit is not None:
            raise OptionError(
                f"option '{name}' is {limit}, and needs Spark 4.2 or newer; this is {pyspark.__version__}. "
                "Leave it out: each batch then reads all that there is"
            )

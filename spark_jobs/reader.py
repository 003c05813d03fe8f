"""The batch reader: ranges planned by the driver, records read by executors as Arrow batches.

`pushFilters` stays as it is: overriding it makes queries fail where `spark.sql.python.filterPushdown.enabled` is off, its default.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkalite.client import ClientError, ConsumerOptions, SyncConsumer, TopicPartition
from kafkalite.client.errors import ClientTimeoutError
from spark_jobs.decoded_columns import ColumnDecoders, DecodingFinder, RegistryColumns, decoded_fields
from spark_jobs.options import SourceOptions, client_options
from spark_jobs.positions import Positions
from spark_jobs.ranges import DataLossError, OffsetRange
from spark_jobs.registry.schemas import Decoding
from spark_jobs.rows import check_schema, client_columns, converter, range_end_row
from spark_jobs.tasks import Task

log = logging.getLogger(__name__)

RACK_VARIABLE: Final = "KAFKALITE_CLIENT_RACK"
"""What executors read as `kafka.client.rack`, each its own, where the query has none."""


class RangePartition(InputPartition):
    """The work of one task, and what it decodes with; no range is nothing to do."""

    def __init__(self, ranges: Sequence[OffsetRange], decodings: Mapping[str, Decoding] | None = None) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.decodings = decodings or {}

    def __repr__(self) -> str:
        return f"RangePartition({', '.join(map(str, self.ranges))})"


class BatchReader(DataSourceReader):
    """What `spark.read.format("kafkalite")` runs."""

    def __init__(self, options: SourceOptions, schema: StructType, columns: RegistryColumns | None = None) -> None:
        check_schema(schema, decoded_fields(columns))
        self._options = options
        self._schema = schema
        self._finder = DecodingFinder(columns, schema)

    def partitions(self) -> list[RangePartition]:
        """Return one for each task; where a query ends is decided here, once. OptionError, OffsetsError, ClientError."""
        tasks: Sequence[Task] | None = self._options.tasks
        if tasks is None:
            with Positions(self._options) as positions:
                tasks = [(each,) for each in positions.batch_ranges()]
        decodings = self._finder.find()
        # Spark makes a partition with the value None of an empty list.
        return [RangePartition(each, decodings) for each in tasks] or [RangePartition(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)


def own_rack(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting `client.rack` of an executor that says where it is (KIP-392)."""
    rack = environment.get(RACK_VARIABLE)
    return {"client.rack": rack} if rack else {}


def read_partition(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Yield the records of a `RangePartition` as Arrow batches of `schema`, and rows that end ranges. DataLossError, ClientError."""
    ranges: Sequence[OffsetRange] = getattr(partition, "ranges", ())
    if not ranges:
        return
    decoders, columns = ColumnDecoders(getattr(partition, "decodings", {})), client_columns(schema)
    timeout = {"default.api.timeout.ms": str(options.poll_timeout_ms)}
    settings = client_options(ConsumerOptions, {**own_rack(os.environ), **options.kafka, **timeout})
    with SyncConsumer(**settings) as consumer:
        for each in ranges:
            convert, records = converter(schema, each.topic, decoders.decode), 0
            for batch in available(consumer, each, columns, options.fail_on_data_loss):
                records += batch.num_rows
                yield convert(batch)
            row = range_end_row(schema, each.partition, each.start, each.end, records)
            if row is not None:
                yield row


def available(
    consumer: SyncConsumer, wanted: OffsetRange, columns: Sequence[str], fail_on_data_loss: bool
) -> Iterator[Any]:
    """Yield the record batches of `wanted`, with `offset` among the columns.

    What the log has lost is an error or, without `fail_on_data_loss`, a warning.
    """
    topic_partition = wanted.topic_partition
    position = wanted.start
    while position < wanted.end:
        try:
            for batch in consumer.read_range(topic_partition, position, wanted.end, columns=columns):
                yield batch
                position = batch.column("offset")[-1].as_py() + 1
            return
        except ClientError as problem:
            resumed = _after_loss(consumer, topic_partition, position, wanted.end, problem)
            reason = f"Could not read records in offset [{position}, {resumed}) for topic partition {topic_partition}."
            if fail_on_data_loss:
                raise DataLossError(f"{reason} {problem}") from problem
            log.warning("%s They are skipped, because failOnDataLoss is false: %s", reason, problem)
            position = resumed


def _after_loss(
    consumer: SyncConsumer, topic_partition: TopicPartition, position: int, end: int, problem: ClientError
) -> int:
    """Return where reading goes on after `problem`, `end` at most, if the log does not have `position`; raise it otherwise."""
    if problem.name == "UNKNOWN_TOPIC_OR_PARTITION":
        return end
    if problem.name != "OFFSET_OUT_OF_RANGE" and not isinstance(problem, ClientTimeoutError):
        raise problem
    first = consumer.beginning_offsets([topic_partition])[topic_partition]
    last = consumer.end_offsets([topic_partition])[topic_partition]
    if position < first:
        return min(first, end)
    if position >= last:
        return end
    raise problem  # it has the offset, and did not give it in time

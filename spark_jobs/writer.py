"""The sink: rows become records, at least once. A task that fails is run again, and what it had sent stays; in transactions it does not
become visible (`transactions`).

Columns: `value` (string or binary), and if wanted `key` (the same), `topic` (string), `partition` (int), `headers` (array of structs of
key and value) and, with the option `includeTimestamp`, `timestamp`. Others are left out.
With `valueFormat` and `keyFormat` value and key have the types of a registry's schemas (`encoded_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from kafkalite.client import ClientError, ProducerOptions, SyncProducer
from spark_jobs.encoded_columns import ColumnEncoders, check_encoded_types
from spark_jobs.options import OptionError, SinkOptions, client_options
from spark_jobs.registry.schemas import Encoding
from spark_jobs.rows import HEADERS_TYPE
from spark_jobs.transactions import DriverTransactions, Written, producer_options, task

_TEXT_OR_BYTES = (StringType(), BinaryType())
_COLUMNS: Mapping[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": (HEADERS_TYPE,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}


_BATCH_BYTES: Final = 256 * 1024
"""A batch of 1 kB records costs a third of what it costs with Kafka's default of 16 KiB; tasks have enough to fill it."""


def check_columns(schema: StructType, options: SinkOptions, encoded: Collection[str] = ()) -> None:
    """Raise OptionError when a column is missing or has a type that no record has; `encoded` have the types of their schemas."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if options.topic is None and "topic" not in kinds:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise OptionError("Required attribute 'value' not found")
    if options.include_timestamp and "timestamp" not in kinds:
        raise OptionError("option includeTimestamp needs an attribute 'timestamp'")
    for name, allowed in _COLUMNS.items():
        if name not in kinds or name in encoded or (name == "topic" and options.topic is not None):
            continue
        if name == "timestamp" and not options.include_timestamp:
            continue
        names = [each.simpleString() for each in allowed]
        if kinds[name].simpleString() not in names:
            raise OptionError(
                f"{name} attribute unsupported type {kinds[name].simpleString()}. {name} must be a(n) {' or '.join(names)}"
            )


class SinkWriter:
    """Writes the rows of one task."""

    def __init__(
        self, options: SinkOptions, schema: StructType, encodings: Mapping[str, Encoding] | None = None
    ) -> None:
        self._encodings = encodings or {}
        check_columns(schema, options, self._encodings)
        check_encoded_types(schema, self._encodings)
        self._options = options
        names = set(schema.names)
        self._columns = {name for name in _COLUMNS if name in names}
        if options.topic is not None:
            self._columns.discard("topic")
        if not options.include_timestamp:
            self._columns.discard("timestamp")

    @property
    def driver(self) -> DriverTransactions | None:
        """The driver's part, for when the tasks have ended; None without transactions."""
        prefix = self._options.transactional_id_prefix
        return None if prefix is None else DriverTransactions(self._options.kafka, prefix)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send all rows and wait until brokers have them. Raises the first error that a record met.

        With transactions they are for the driver to commit.
        """
        failures: list[Exception] = []

        # As Java's producer: records without a key fill one partition's batch, then another's.
        encoders = ColumnEncoders(self._encodings)
        prefix, (number, query_id) = self._options.transactional_id_prefix, task()
        if prefix is None:
            options = client_options(ProducerOptions, self._options.kafka)
        else:
            options = producer_options(self._options.kafka, prefix, number)
        with SyncProducer(**{"partitioner": "sticky", "batch_size": _BATCH_BYTES, **options}) as producer:
            if prefix is not None:
                producer.init_transactions()
                producer.begin_transaction()
            for batch in iterator:
                try:
                    self._send(producer, encoders, batch, failures.append)
                except ClientError as problem:  # of the call, as the others a reason to abort
                    failures.append(problem)
                if failures:
                    break
            if not failures and prefix is not None:
                return Written(producer.prepare_transaction(), query_id)
            if not failures:
                producer.flush()
            if failures:
                if prefix is not None:
                    producer.abort_transaction()
                producer.close(timeout=0)
                raise failures[0]
        return WriterCommitMessage()

    def _send(
        self, producer: SyncProducer, encoders: ColumnEncoders, batch: Any, note: Callable[[Exception], None]
    ) -> None:
        names = [name for name in ("value", "key", "timestamp", "partition", "headers") if name in self._columns]
        columns: dict[str, list[Any]] = {
            name: _values(name, encoders.encode(name, batch.column(name))) for name in names
        }
        if self._options.topic is not None:
            _send_columns(producer, self._options.topic, columns, note)
            return
        rows_of: dict[str, list[int]] = {}
        for row, topic in enumerate(_values("topic", batch.column("topic"))):
            if topic is None:
                raise OptionError(
                    "The Kafka message data sent to the producer contains a null topic. "
                    "Use the `topic` option for setting a default topic."
                )
            rows_of.setdefault(topic, []).append(row)
        for topic, rows in rows_of.items():
            _send_columns(
                producer, topic, {name: [column[row] for row in rows] for name, column in columns.items()}, note
            )


def _send_columns(
    producer: SyncProducer, topic: str, columns: Mapping[str, list[Any]], note: Callable[[Exception], None]
) -> None:
    producer.send_columns(
        topic,
        columns["value"],
        keys=columns.get("key"),
        timestamps_ms=columns.get("timestamp"),
        partitions=columns.get("partition"),
        headers=columns.get("headers"),
        on_failure=note,
    )


def _values(name: str, column: Any) -> list[Any]:
    """Return a column in the form that `SyncProducer.send_columns` takes: bytes, milliseconds, pairs."""
    if name in ("key", "value"):
        column = column.cast(pa.binary())
    elif name == "timestamp":
        column = column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    elif name == "headers":
        return [pairs and [(each["key"], each["value"]) for each in pairs] for pairs in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


class BatchWriter(SinkWriter, DataSourceArrowWriter):
    """What `df.write.format("kafkalite")` runs."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transactions, if there are any; brokers acknowledged all rows before the tasks ended."""
        if (driver := self.driver) is not None:
            driver.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transactions; without them nothing can be taken back."""
        if (driver := self.driver) is not None:
            driver.abort(messages)

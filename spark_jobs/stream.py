"""The streaming reader and writer. Offsets in checkpoints are Spark's own: `{"topic": {"0": 23}}`, where to read on.

A trigger reads up to `maxOffsetsPerTrigger`, shared out in proportion to what waits in each partition, and waits for
`minOffsetsPerTrigger` up to `maxTriggerDelay`. PySpark has no limit of both kinds, so the options decide here; the limit that Spark
hands over matters only when it is "all that there is" (Trigger.Once). With Trigger.AvailableNow the end is fixed when the query
starts, and nothing waits for more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kafkalite.client import TopicPartition
from spark_jobs.decoded_columns import DecodingFinder, RegistryColumns, decoded_fields
from spark_jobs.options import SourceOptions
from spark_jobs.positions import Positions
from spark_jobs.ranges import (
    DataLossError,
    OffsetRange,
    Offsets,
    list_partitions,
    offsets_from_json,
    offsets_to_json,
    ration_offsets,
    split_ranges,
    waiting_offsets,
)
from spark_jobs.reader import RangePartition, read_partition
from spark_jobs.rows import check_schema
from spark_jobs.writer import SinkWriter

log = logging.getLogger(__name__)

OffsetsJson = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What `spark.readStream.format("kafkalite")` runs: the driver's half keeps a connection, executors only `read`."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        ask: Callable[[SourceOptions], Positions] = Positions,
        now_s: Callable[[], float] = time.time,
        columns: RegistryColumns | None = None,
    ) -> None:
        check_schema(schema, decoded_fields(columns))
        self._finder = DecodingFinder(columns, schema)
        self._options = options
        self._schema = schema
        self._ask, self._now_s = ask, now_s
        self._asked: Positions | None = None
        self._target: Offsets | None = None
        self._newest: Offsets | None = None
        self._last_trigger_s = 0.0

    @property
    def _positions(self) -> Positions:
        """Made at need: a reader travels to executors without a connection."""
        if self._asked is None:
            self._asked = self._ask(self._options)
        return self._asked

    # where batches begin and end

    def initialOffset(self) -> OffsetsJson:
        """Return where a new query begins. OffsetsError, ClientError."""
        partitions = self._positions.choose_partitions()
        return offsets_to_json(self._positions.resolve(self._options.start, partitions, starting=True))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends({})

    def latestOffset(self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit) -> OffsetsJson:
        """Return where the next batch ends; `start` when none is due."""
        begun = offsets_from_json(start)
        ends = self._newest = self._target if self._target is not None else self._ends(begun)
        if isinstance(limit, ReadAllAvailable):
            return offsets_to_json(ends)
        known = {**begun, **self._positions.earliest(each for each in ends if each not in begun)}
        if self._target is None and self._is_too_little(known, ends):
            return offsets_to_json(begun)
        if self._options.max_offsets_per_trigger is not None:
            ends = ration_offsets(self._options.max_offsets_per_trigger, known, ends)
        return offsets_to_json(ends)

    def _ends(self, known: Offsets) -> dict[TopicPartition, int]:
        return self._positions.latest(self._positions.choose_partitions(), known)

    def _is_too_little(self, start: Offsets, ends: Offsets) -> bool:
        least, now_s = self._options.min_offsets_per_trigger, self._now_s()
        waited_ms = (now_s - self._last_trigger_s) * 1000
        if least is None or waited_ms >= self._options.max_trigger_delay_ms or waiting_offsets(start, ends) >= least:
            self._last_trigger_s = now_s
            return False
        return True

    def reportLatestOffset(self) -> OffsetsJson | None:
        """Return the ends of the log as last seen, for the metrics of the query."""
        return offsets_to_json(self._newest) if self._newest else None

    # a batch

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> list[RangePartition]:
        """Return the tasks of a batch. DataLossError when partitions or offsets went away and `failOnDataLoss` is true."""
        begun, ends = offsets_from_json(start), offsets_from_json(end)
        gone = set(begun) - set(ends)
        if gone:
            self._report(f"Partitions {list_partitions(gone)} have been deleted.")
        begun.update(self._starts_of_new(set(ends) - set(begun)))
        ranges = []
        for topic_partition in sorted(set(ends) & set(begun)):
            first, last = begun[topic_partition], ends[topic_partition]
            if last < first:
                self._report(f"Partition {topic_partition} offset was changed from {first} to {last}.")
            ranges.append(OffsetRange(*topic_partition, first, last))
        options = self._options
        tasks = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        decodings = self._finder.find()
        return [RangePartition(each, decodings) for each in tasks]

    def _starts_of_new(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the beginnings of partitions that were added while the query ran, which should be 0."""
        there = partitions & self._positions.choose_partitions() if partitions else set()
        if partitions - there:
            self._report(
                f"Cannot find initial offsets for partitions {list_partitions(partitions - there)}. They may have been deleted."
            )
        starts = self._positions.earliest(there)
        for topic_partition, offset in sorted(starts.items()):
            if offset:
                self._report(f"Added partition {topic_partition} starts from {offset} instead of 0.")
        return starts

    def _report(self, loss: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        log.warning("%s Some data may have been missed; failOnDataLoss is false, so the query goes on", loss)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Commit nothing: the checkpoint has the offsets. (Spark does not call it for the last batch of Trigger.AvailableNow.)"""

    def stop(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.close()


class StreamWriter(SinkWriter, DataSourceStreamArrowWriter):
    """What `df.writeStream.format("kafkalite")` runs. A batch that is run again is written again: at least once, but with transactions."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the transactions, if there are any; brokers acknowledged all rows before the tasks ended."""
        if (driver := self.driver) is not None:
            driver.commit_batch(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions; without them nothing can be taken back."""
        if (driver := self.driver) is not None:
            driver.abort(messages)

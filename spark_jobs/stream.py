"""The streaming reader and writer, for Spark 4.2 and later (`early_stream` has the reader for those before).

A trigger reads up to `maxOffsetsPerTrigger`, shared out in proportion to what waits in each partition, and waits for
`minOffsetsPerTrigger` up to `maxTriggerDelay`. PySpark has no limit of both kinds, so the options decide here; the limit that Spark
hands over matters only when it is "all that there is" (Trigger.Once). With Trigger.AvailableNow the end is fixed when the query
starts, and nothing waits for more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_jobs.decoded_columns import RegistryColumns
from spark_jobs.options import SourceOptions
from spark_jobs.positions import Positions
from spark_jobs.ranges import Offsets, offsets_to_json, ration_offsets, split_topic_ids, waiting_offsets
from spark_jobs.stream_batches import OffsetsJson, StreamBatches
from spark_jobs.writer import SinkWriter


class StreamReader(StreamBatches, SupportsTriggerAvailableNow):
    """What `spark.readStream.format("kafkalite")` runs."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        ask: Callable[[SourceOptions], Positions] = Positions,
        now_s: Callable[[], float] = time.time,
        columns: RegistryColumns | None = None,
    ) -> None:
        super().__init__(options, schema, ask, columns)
        self._now_s = now_s
        self._target: Offsets | None = None
        self._newest: Offsets | None = None
        self._last_trigger_s = 0.0

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends({})

    def latestOffset(self, start: Mapping[str, Mapping[str, Any]], limit: ReadLimit) -> OffsetsJson:
        """Return where the next batch ends; `start` when none is due. DataLossError, ClientError."""
        begun, _ = split_topic_ids(start)
        ends = self._newest = self._ends_or_target(begun)
        self._check_topics(self._topic_ids, start)
        self._check_ends(begun, ends)
        if isinstance(limit, ReadAllAvailable):
            return self._to_json(ends)
        known = {**begun, **self._positions.earliest(each for each in ends if each not in begun)}
        if self._target is None and self._is_too_little(known, ends):
            return self._to_json(begun)
        if self._options.max_offsets_per_trigger is not None:
            ends = ration_offsets(self._options.max_offsets_per_trigger, known, ends)
        return self._to_json(ends)

    def _ends_or_target(self, begun: Offsets) -> Offsets:
        """Return the ends of the log, with Trigger.AvailableNow as they were when the query started.

        A query that is started again may have read further than a broker knew that was asked then: it is asked again.
        """
        if self._target is None:
            return self._ends(begun)
        if any(self._target.get(each, -1) < offset for each, offset in begun.items()):
            self._target = self._ends(begun)
        return self._target

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

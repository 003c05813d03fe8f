"""The streaming reader for Spark 4.0 and 4.1, which ask for the end of a batch without saying where it begins, and have no limits.

A batch reads all that there is, also with Trigger.AvailableNow, which makes one batch of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.ranges import split_topic_ids
from spark_jobs.reader import RangePartition
from spark_jobs.stream_batches import OffsetsJson, StreamBatches


class EarlyStreamReader(StreamBatches):
    """What `spark.readStream.format("kafkalite")` runs before Spark 4.2."""

    _reached: OffsetsJson | None = None
    """Where the last batch ended, as far as this process knows: after a restart nothing, until the first batch."""

    def initialOffset(self) -> OffsetsJson:
        """Return where a new query begins. OffsetsError, ClientError."""
        self._reached = super().initialOffset()
        return self._reached

    def latestOffset(self) -> OffsetsJson:  # type: ignore[override]
        """Return where the next batch ends. DataLossError, ClientError."""
        reached, _ = split_topic_ids(self._reached or {})
        ends = self._ends(reached)
        self._check_topics(self._topic_ids, self._reached or {})
        self._check_ends(reached, ends)
        return self._to_json(ends)

    def partitions(
        self, start: Mapping[str, Mapping[str, Any]], end: Mapping[str, Mapping[str, Any]]
    ) -> list[RangePartition]:
        """Return the tasks of a batch. Errors as in `StreamBatches`."""
        found = super().partitions(start, end)
        self._reached = {topic: dict(partitions) for topic, partitions in end.items()}
        return found

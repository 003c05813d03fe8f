"""The streaming reader for Spark 4.0 and 4.1, which ask for the end of a batch without saying where it begins, and have no limits.

A batch reads all that there is, also with Trigger.AvailableNow, which makes one batch of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkalite.client import TopicPartition
from spark_jobs.ranges import offsets_from_json, offsets_to_json
from spark_jobs.stream_batches import OffsetsJson, StreamBatches


class EarlyStreamReader(StreamBatches):
    """What `spark.readStream.format("kafkalite")` runs before Spark 4.2."""

    _reached: Mapping[TopicPartition, int] | None = None
    """Where the last batch ended, as far as this process knows: after a restart nothing, until the first batch."""

    def initialOffset(self) -> OffsetsJson:
        """Return where a new query begins. OffsetsError, ClientError."""
        begun = super().initialOffset()
        self._reached = offsets_from_json(begun)
        return begun

    def latestOffset(self) -> OffsetsJson:  # type: ignore[override]
        """Return where the next batch ends. DataLossError, ClientError."""
        reached = self._reached or {}
        ends = self._ends(reached)
        self._check_ends(reached, ends)
        return offsets_to_json(ends)

    def partitions(self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> list[Any]:
        """Return the tasks of a batch. Errors as in `StreamBatches`."""
        found = super().partitions(start, end)
        self._reached = offsets_from_json(end)
        return found

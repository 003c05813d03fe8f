"""Where partitions begin and end: the driver's questions to the cluster.

Each question is tried `fetchOffset.numRetries` times with a new connection, `fetchOffset.retryIntervalMs` apart.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from kafkalite.client import AdminOptions, ClientError, SyncAdmin, TopicDescription, TopicPartition
from spark_jobs.log_sizes import find_log_bytes
from spark_jobs.options import Assign, Selection, SourceOptions, Subscribe, client_options
from spark_jobs.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    EarliestOffsets,
    GivenOffsets,
    GivenTimestamps,
    LatestOffsets,
    OffsetRange,
    Offsets,
    OffsetsError,
    check_covers,
    list_partitions,
    ranges_between,
    split_ranges,
)
from spark_jobs.tasks import bytes_per_offset

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Positions:
    """Asks the cluster of `options`; to be closed, or used with `with`."""

    def __init__(self, options: SourceOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._client_options = client_options(AdminOptions, options.kafka)
        self._sleep = sleep
        self._connected: SyncAdmin | None = None
        self.topic_ids: Mapping[str, str] = {}
        """The ids of the topics when `choose_partitions` was asked last; none of brokers that have no ids (before 2.8)."""

    def __enter__(self) -> Positions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        admin, self._connected = self._connected, None
        if admin is not None:
            admin.close()

    # partitions

    def choose_partitions(self, known: Collection[TopicPartition] = ()) -> set[TopicPartition]:
        """Return the partitions that the options choose now. ClientError UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there.

        One that is `known` may be missing at a broker that lags behind: another one is asked.
        """
        attempt = 1
        while True:
            topics = self._retrying(lambda admin: _choose_topics(admin, self._options.choice))
            self.topic_ids = {each.name: each.topic_id for each in topics if each.topic_id}
            found = _partitions_of(topics, self._options.choice)
            missing = set(known) - found
            if not missing or attempt >= self._options.fetch_offset_retries:
                return found
            log.warning("Partitions %s seem to be gone", list_partitions(missing))
            self.close()
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
            attempt += 1

    # offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list_offsets(dict.fromkeys(partitions, "earliest"))

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets | None = None) -> dict[TopicPartition, int]:
        """Return the ends of the log: of what is committed with isolation.level=read_committed, else the high watermarks.

        An end before one that is `known` may come from a broker that lags behind: it is asked for again.
        """
        wanted = dict.fromkeys(partitions, "latest")
        attempt = 1
        while True:
            found = self._list_offsets(wanted)
            behind = [each for each, offset in (known or {}).items() if found.get(each, offset) < offset]
            if not behind or attempt >= self._options.fetch_offset_retries:
                return found
            log.warning("The log of %s seems to end before where it ended", list_partitions(behind))
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
            attempt += 1

    def resolve(self, bound: Bound, partitions: set[TopicPartition], *, starting: bool) -> dict[TopicPartition, int]:
        """Return the offset of each of `partitions` that `bound` stands for. OffsetsError, ClientError."""
        side = "start" if starting else "end"
        if isinstance(bound, EarliestOffsets):
            return self.earliest(partitions)
        if isinstance(bound, LatestOffsets):
            return self.latest(partitions)
        if isinstance(bound, GivenOffsets):
            check_covers(bound.offsets, partitions, f"{side} offsets")
            return self._resolve_offsets(bound.offsets)
        if isinstance(bound, GivenTimestamps):
            side = "starting" if starting else "ending"
            check_covers(bound.timestamps_ms, partitions, f"timestamp based {side} offsets")
            return self._at(bound.timestamps_ms, starting and not bound.or_latest)
        return self._at(dict.fromkeys(partitions, bound.timestamp_ms), starting and not bound.or_latest)

    def _at(self, timestamps_ms: Mapping[TopicPartition, int], must_match: bool) -> dict[TopicPartition, int]:
        found = self._list_offsets(timestamps_ms)
        missing = sorted(each for each in timestamps_ms if each not in found)
        if missing and must_match:
            raise OffsetsError(
                f"No offset matched from request of topic-partition {missing[0]} and timestamp {timestamps_ms[missing[0]]}."
            )
        return {**found, **self.latest(missing)}

    def _resolve_offsets(self, offsets: Offsets) -> dict[TopicPartition, int]:
        """Return `offsets` with the offsets that EARLIEST and LATEST stand for."""
        earliest = self.earliest(each for each, offset in offsets.items() if offset == EARLIEST)
        latest = self.latest(each for each, offset in offsets.items() if offset == LATEST)
        return {**offsets, **earliest, **latest}

    def _list_offsets(self, wanted: Mapping[TopicPartition, int | str]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        found = self._retrying(
            lambda admin: admin.list_offsets(dict(wanted), isolation_level=self._options.isolation_level)
        )
        return {each: answer.offset for each, answer in found.items() if answer is not None}

    # plans

    def batch_ranges(self) -> list[OffsetRange]:
        """Return the ranges of a batch query, pinned now and split into tasks. OffsetsError, ClientError."""
        options = self._options
        partitions = self.choose_partitions()
        start = self.resolve(options.start, partitions, starting=True)
        end = self.resolve(options.end, partitions, starting=False)
        ranges = ranges_between(start, end)
        return split_ranges(
            ranges, options.min_partitions, options.max_records_per_partition, self._most_offsets(ranges)
        )

    def _most_offsets(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int]:
        """Return how many offsets of each partition have as many bytes as a task may read, if there is such a bound."""
        max_bytes = self._options.max_bytes_per_partition
        if max_bytes is None:
            return {}
        partitions = {each.topic_partition for each in ranges}
        begin, end = self.earliest(partitions), self.latest(partitions)
        sizes = self._retrying(lambda admin: find_log_bytes(admin, partitions))
        found = {}
        for each in partitions:
            average = bytes_per_offset(sizes.get(each, 0), begin[each], end[each])
            if average is not None:
                found[each] = max(1, max_bytes // average)
        return found

    def _retrying(self, ask: Callable[[SyncAdmin], Answer]) -> Answer:
        attempt = 1
        while True:
            try:
                return ask(self._admin())
            except (OSError, ClientError) as problem:
                self.close()
                if attempt >= self._options.fetch_offset_retries or not getattr(problem, "retriable", True):
                    raise
                log.warning("Error in attempt %d getting Kafka offsets: %s", attempt, problem)
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
            attempt += 1

    def _admin(self) -> SyncAdmin:
        if self._connected is None:
            admin = SyncAdmin(**self._client_options)
            try:
                admin.connect()
            except BaseException:
                admin.close()
                raise
            self._connected = admin
        return self._connected


def _choose_topics(admin: SyncAdmin, choice: Selection) -> list[TopicDescription]:
    if isinstance(choice, Assign):
        topics = {each.topic for each in choice.partitions}
    elif isinstance(choice, Subscribe):
        topics = set(choice.topics)
    else:
        topics = {name for name in admin.list_topics() if re.search(choice.pattern, name)}
    described = admin.describe_topics(sorted(topics)) if topics else []
    return [topic for topic in described if not topic.is_internal]


def _partitions_of(topics: Iterable[TopicDescription], choice: Selection) -> set[TopicPartition]:
    partitions = {TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions}
    return partitions & choice.partitions if isinstance(choice, Assign) else partitions

"""Which offsets a query reads: where it may start and end, its ranges, how they are split into tasks and rationed to triggers. Pure.

A bound is what the user asked for (`earliest`, a timestamp, offsets); the driver resolves it once into one offset for each partition.
Ranges are half open. Offsets are told apart from records: compaction and transactions leave gaps, so the size of a range is an
upper bound of its records. The rules are those of Spark's own Kafka source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kafkalite.client import TopicPartition

LATEST = -1
EARLIEST = -2
"""What -1 and -2 stand for in JSON offsets, as in ListOffsets requests."""

Offsets = Mapping[TopicPartition, int]


class OffsetsError(ValueError):
    """Offsets that contradict each other, or the partitions that are there."""


class DataLossError(RuntimeError):
    """Records that a query should read are not in the log any more, and `failOnDataLoss` is true."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "[KAFKA_DATA_LOSS] Some data may have been lost because they are not available in Kafka any more; either the data was "
            "aged out by Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want "
            f"your streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: {reason}"
        )


# bounds


@dataclass(frozen=True, slots=True)
class EarliestOffsets:
    """The first records that the log still has."""


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """Behind the last records when the query is planned."""


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """An offset, EARLIEST or LATEST for each partition."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class GivenTimestamps:
    """The first record at or after a time (ms since 1970 UTC), one for each partition.

    `or_latest`: a start without such a record is the end of the log; else it is an error. An end without one is always the log's.
    """

    timestamps_ms: Mapping[TopicPartition, int]
    or_latest: bool = False


@dataclass(frozen=True, slots=True)
class OneTimestamp:
    """`GivenTimestamps` with the same time for all partitions."""

    timestamp_ms: int
    or_latest: bool = False


Bound = EarliestOffsets | LatestOffsets | GivenOffsets | GivenTimestamps | OneTimestamp


def check_bounds(start: Bound, end: Bound) -> None:
    """Raise OffsetsError when `start` and `end` name different partitions, or a start behind its end."""
    if isinstance(start, GivenOffsets) and isinstance(end, GivenOffsets):
        _check_same_partitions(start.offsets, end.offsets)
        pairs = {each: (offset, end.offsets[each]) for each, offset in start.offsets.items()}
        what = "offset"
    elif isinstance(start, GivenTimestamps) and isinstance(end, GivenTimestamps):
        _check_same_partitions(start.timestamps_ms, end.timestamps_ms)
        pairs = {each: (when, end.timestamps_ms[each]) for each, when in start.timestamps_ms.items()}
        what = "timestamp"
    elif isinstance(start, OneTimestamp) and isinstance(end, OneTimestamp):
        if start.timestamp_ms > end.timestamp_ms:
            raise OffsetsError(
                f"The specified start timestamp {start.timestamp_ms} is greater than the end timestamp {end.timestamp_ms}."
            )
        return
    else:
        return
    for (topic, partition), (first, last) in pairs.items():
        if first > last >= 0:
            raise OffsetsError(
                f"The specified start {what} {first} is greater than the end {what} {last} for topic {topic} partition {partition}."
            )


def _check_same_partitions(start: Iterable[TopicPartition], end: Iterable[TopicPartition]) -> None:
    if set(start) != set(end):
        raise OffsetsError(
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for start offset: "
            f"{list_partitions(start)}, topic-partitions for end offset: {list_partitions(end)}."
        )


def check_covers(specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition], what: str) -> None:
    """Raise OffsetsError unless the partitions `specified` by a bound are those that the query reads; `what` names the bound."""
    if set(specified) != set(assigned):
        raise OffsetsError(
            f"Partitions specified for Kafka {what} don't match what are assigned. Maybe topic partitions are created or deleted "
            "while the query is running, or you didn't specify all the partitions. Use -1 for latest, -2 for earliest. "
            f"Specified: {list_partitions(specified)} Assigned: {list_partitions(assigned)}"
        )


def list_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in order, for messages."""
    return "[" + ", ".join(map(str, sorted(partitions))) + "]"


# JSON, as in options and in the checkpoints of streams


def offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return `{"topic": {"0": 23}}`, in order."""
    topics: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return topics


def offsets_from_json(topics: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the offsets that `offsets_to_json` was given. ValueError for anything that does not have that shape."""
    if not isinstance(topics, Mapping):
        raise ValueError("not a JSON object")
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"topic {topic} has no JSON object of partitions")
        for partition, offset in partitions.items():
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise ValueError(f"{topic}-{partition} has {offset!r}, which is no integer")
            offsets[TopicPartition(topic, int(partition))] = checked_long(offset)
    return offsets


def checked_long(number: int) -> int:
    """Return the number itself, an offset or a timestamp of the protocol. ValueError when it does not fit into 64 bits."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} does not fit into 64 bits")
    return number


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return offsets from JSON text. ValueError, also when it is no JSON."""
    return offsets_from_json(json.loads(text))


TOPIC_ID = "id"
"""With `topicIdsInOffsets` a key beside the numbers of a topic's partitions; its value is the topic's id."""


def split_topic_ids(topics: Mapping[str, Mapping[str, Any]]) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """Return the offsets and the ids of topics from the JSON of a stream; no ids when it was written without."""
    numbers = {
        topic: {name: value for name, value in partitions.items() if name != TOPIC_ID}
        for topic, partitions in topics.items()
    }
    ids = {topic: str(partitions[TOPIC_ID]) for topic, partitions in topics.items() if TOPIC_ID in partitions}
    return offsets_from_json(numbers), ids


# ranges and tasks


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `start` to before `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}) of {self.topic_partition}"


def ranges_between(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return the ranges of a batch query, in order, without empty ones. OffsetsError when one ends before it starts."""
    ranges = []
    for topic, partition in sorted(end):
        topic_partition = TopicPartition(topic, partition)
        first, last = start[topic_partition], end[topic_partition]
        if first > last:
            raise OffsetsError(
                f"The resolved start offset {first} is greater than the resolved end offset {last} for topic {topic} partition "
                f"{partition}. Either the start lies behind the end of the log, or the end lies before the first record that the log "
                "still has, or an offset and a timestamp do not go together."
            )
        if first < last:
            ranges.append(OffsetRange(topic, partition, first, last))
    return ranges


def split_ranges(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    most_offsets: Mapping[TopicPartition, int] | None = None,
) -> list[OffsetRange]:
    """Return the ranges of the tasks: none larger than `max_records_per_partition`, and about `min_partitions` when there are fewer.

    `most_offsets` are bounds of single partitions. Without any of these it is one task for each partition. Large ranges are split and small
    ones left alone; no range is empty, and together they are exactly `ranges`.
    """
    tasks = [each for each in ranges if each.size > 0]
    bounds = most_offsets or {}
    tasks = [
        piece
        for each in tasks
        for piece in _bound_range(each, max_records_per_partition, bounds.get(each.topic_partition))
    ]
    if min_partitions is None or len(tasks) >= min_partitions:
        return tasks
    total = sum(each.size for each in tasks)
    whole = [each for each in tasks if _part_count(each.size, total, min_partitions) == 1]
    split_total = total - sum(each.size for each in whole)
    split_partitions = max(min_partitions - len(whole), 1)
    kept = set(whole)
    return [
        piece
        for each in tasks
        for piece in _pieces(each, 1 if each in kept else _part_count(each.size, split_total, split_partitions))
    ]


def _bound_range(whole: OffsetRange, *most: int | None) -> list[OffsetRange]:
    """Return `whole` in pieces that are not larger than any of `most`; None bounds nothing."""
    least = min((each for each in most if each is not None), default=whole.size)
    return _pieces(whole, math.ceil(whole.size / least))


def _part_count(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Return `whole` in `count` pieces of the same size or one more, fewer when there are not so many offsets."""
    count = min(count, whole.size)
    bounds = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, first, last) for first, last in pairwise(bounds)]


# triggers of streams


def ration_offsets(max_offsets: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return where a micro-batch of about `max_offsets` ends: every partition gives in proportion to what waits, and at least one."""
    waiting = {each: end - start[each] for each, end in latest.items() if end > start[each]}
    total = sum(waiting.values())
    if total <= max_offsets:
        return dict(latest)
    ends = dict(latest)
    for topic_partition, size in waiting.items():
        share = max(max_offsets * size // total, 1)
        ends[topic_partition] = min(start[topic_partition] + share, latest[topic_partition])
    return ends


def waiting_offsets(start: Offsets, latest: Offsets) -> int:
    """Return the number of offsets that wait to be read."""
    return sum(max(end - start.get(each, 0), 0) for each, end in latest.items())

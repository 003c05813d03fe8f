"""What the jobs ask of the cluster and tell it: bounds of logs, offsets by time, committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from kafkalite.client import AdminOptions, ClientError, DigestedRange, SyncAdmin, TopicPartition
from kafkalite.errors import ErrorCode
from kafkalite.timestamps import LEAST_INT64
from spark_jobs.batch.failures import UnknownTopicError
from spark_jobs.batch.plan import LogBounds, Offsets
from spark_jobs.batch.proof import Span, Sum, align_spans
from spark_jobs.log_sizes import find_log_bytes
from spark_jobs.options import client_options
from spark_jobs.tasks import bytes_per_offset

READ_COMMITTED: Final = "read_committed"


class ClusterLog:
    """A connection to the cluster; `settings` are the client's, in Kafka's names. Methods raise ClientError."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self._admin = SyncAdmin(**client_options(AdminOptions, settings))

    def __enter__(self) -> Self:
        self._admin.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def bounds(self, topic: str) -> LogBounds:
        """Return where the topic's partitions begin and, for now, end (before transactions that are open). UnknownTopicError."""
        try:
            (described,) = self._admin.describe_topics([topic])
        except ClientError as problem:
            if problem.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                raise UnknownTopicError(topic) from None
            raise
        partitions = [TopicPartition(topic, each.partition) for each in described.partitions]
        # The ends first: what retention takes meanwhile is then a range that is empty, not one that ends before it begins.
        end = self._offsets(dict.fromkeys(partitions, "latest"))
        begin = self._offsets(dict.fromkeys(partitions, "earliest"))
        return LogBounds(topic, described.topic_id, begin, {p: max(offset, begin[p]) for p, offset in end.items()})

    def first_offsets(self, bounds: LogBounds, timestamp_ms: int) -> dict[int, int]:
        """Return, by the time index, each partition's first offset whose record is not older; none where there is no such record.

        Brokers refuse to look for times before 1970, so then it is the first offset of all.
        """
        if timestamp_ms < 0:
            return {partition: begin for partition, begin in bounds.begin.items() if begin < bounds.end[partition]}
        return self._offsets({TopicPartition(bounds.topic, p): timestamp_ms for p in bounds.end})

    def record_bytes(self, bounds: LogBounds) -> dict[int, int]:
        """Return the average bytes of an offset of each partition's log, as brokers keep it; none of an empty one."""
        sizes = find_log_bytes(self._admin, [TopicPartition(bounds.topic, p) for p in bounds.end])
        found = {}
        for (_, partition), log_bytes in sorted(sizes.items()):
            average = bytes_per_offset(log_bytes, bounds.begin[partition], bounds.end[partition])
            if average is not None:
                found[partition] = average
        return found

    def digest(self, topic: str, spans: Sequence[Span]) -> Sum:
        """Return how many committed records spans have, and their fingerprint, as the partitions' leaders have them."""
        return sum((found for _, _, found in self.digest_parts(topic, spans, None)), Sum())

    def digest_parts(self, topic: str, spans: Iterable[Span], part_offsets: int | None) -> list[tuple[int, int, Sum]]:
        """Return what spans have between each two multiples of `part_offsets`, with the partition and the first of the offsets.

        Offsets of which several spans want records are asked about without their times: the digest of a part whose records lie all within
        the times of one is that of this span. Only where records lie on both sides of a bound is it asked for each span.
        """
        groups = align_spans(spans)
        wanted = [
            group[0] if len(group) == 1 else group[0]._replace(since_ms=LEAST_INT64, until_ms=None) for group in groups
        ]
        found: list[tuple[Span, DigestedRange]] = []
        parted: list[Span] = []
        for group, parts in zip(groups, self._ask(topic, wanted, part_offsets), strict=True):
            if len(group) == 1:
                found += [(group[0], each) for each in parts]
                continue
            for span in group:
                found += [(span, each) for each in parts if _is_within(each, span)]
                parted += _join(
                    [span._replace(start=each.start, end=each.end) for each in parts if _is_parted(each, span)]
                )
        for span, parts in zip(parted, self._ask(topic, parted, part_offsets), strict=True):
            found += [(span, each) for each in parts]
        return [(span.partition, each.start, _sum_of(each)) for span, each in found]

    def _ask(self, topic: str, spans: Sequence[Span], part_offsets: int | None) -> list[list[DigestedRange]]:
        """Return the digests of the parts of each span."""
        found: list[list[DigestedRange]] = [[] for _ in spans]
        for together in _asked_together(spans):
            since_ms, until_ms = spans[next(iter(together.values()))][3:]
            ranges = {TopicPartition(topic, p): spans[number][1:3] for p, number in together.items()}
            digests = self._admin.digest_records(
                ranges, since_ms=since_ms, until_ms=until_ms, part_offsets=part_offsets
            )
            for each in digests:
                found[together[each.topic_partition.partition]].append(each)
        return found

    def commit(self, group: str, topic: str, offsets: Offsets) -> None:
        """Commit in the name of a job's consumer group, which shows how far the job is."""
        if offsets:
            self._admin.alter_group_offsets(group, {TopicPartition(topic, p): o for p, o in offsets.items()})

    def end_transactions(self, prefix: str) -> None:
        """Abort what producers whose transactional ids begin with `prefix` left open, and let them do nothing more."""
        listed = self._admin.list_transactions()
        left = [each.transactional_id for each in listed if each.transactional_id.startswith(prefix)]
        self._admin.fence_producers(left)

    def _offsets(self, wanted: Mapping[TopicPartition, int | str]) -> dict[int, int]:
        found = self._admin.list_offsets(wanted, isolation_level=READ_COMMITTED)
        return {each.partition: answer.offset for each, answer in found.items() if answer is not None}


def _asked_together(spans: Sequence[Span]) -> list[dict[int, int]]:
    """Group the numbers of spans, by partition, that one call can ask for: of the same times, and one of each partition."""
    groups: dict[tuple[int, int | None], list[dict[int, int]]] = {}
    for number, span in enumerate(spans):
        some = groups.setdefault(span[3:], [])
        group = next((each for each in some if span.partition not in each), None)
        if group is None:
            some.append(group := {})
        group[span.partition] = number
    return [group for some in groups.values() for group in some]


def _join(spans: Iterable[Span]) -> list[Span]:
    """Return spans of the same partition and times, in order, with those joined that follow each other."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].end == span.start:
            joined[-1] = joined[-1]._replace(end=span.end)
        else:
            joined.append(span)
    return joined


def _is_within(found: DigestedRange, span: Span) -> bool:
    """True if there are records, all of which lie within the times of the span."""
    least, largest = found.least_timestamp, found.largest_timestamp
    if least is None or largest is None:
        return False
    return span.since_ms <= least and (span.until_ms is None or largest < span.until_ms)


def _is_parted(found: DigestedRange, span: Span) -> bool:
    """True if some of the records, and not all, may lie within the times of the span."""
    least, largest = found.least_timestamp, found.largest_timestamp
    if least is None or largest is None or _is_within(found, span):
        return False
    return largest >= span.since_ms and (span.until_ms is None or least < span.until_ms)


def _sum_of(found: DigestedRange) -> Sum:
    first, last = found.first_offset, found.last_offset
    return Sum() if first is None or last is None else Sum(found.records, int(found.fingerprint, 16), first, last)

"""Administration of records: deleted up to an offset, digested; offsets found by name or time. Asked of the leaders. A part of `Admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalite.client.admin.calls import AdminCalls, Results, each_of
from kafkalite.client.cluster.offset_lookup import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    IsolationLevel,
    Known,
    isolation_number,
    list_offsets,
)
from kafkalite.client.offsets import OffsetAndTimestamp
from kafkalite.client.plain_values import PlainValues
from kafkalite.protocol import messages
from kafkalite.timestamps import LARGEST_INT64, LEAST_INT64, check_int64
from kafkalite.types import TopicPartition, group_by_topic

if TYPE_CHECKING:
    from kafkalite.client.admin.topics import TopicDescription
    from kafkalite.client.cluster.view import PartitionView
    from kafkalite.protocol.record_batches.record_digest import RangeDigest

_OFFSETS_BY_NAME: Final[Mapping[str, int]] = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "max-timestamp": MAX_TIMESTAMP,
}
_RANGES_AT_ONCE: Final = 8
HIGH_WATERMARK: Final = -1
"""Where to delete records up to: all that are committed."""


@dataclass(frozen=True, slots=True)
class DeletedRecords(PlainValues):
    """The first offset that a partition still has after `delete_records`."""

    topic_partition: TopicPartition
    low_watermark: int


@dataclass(frozen=True, slots=True)
class DigestedRange(PlainValues):
    """The committed records with offsets from `start` to before `end`: how many they are, the first and last offset and the least and
    largest timestamp of them (None without any), the bytes of keys, values and headers, and their fingerprint, 32 hexadecimal digits.

    The fingerprint is the sum, modulo 2**128, of the murmur3 hashes of the records with their offsets and timestamps. Equal ranges have
    equal fingerprints, in every cluster and however batches are cut or compressed. Any accident shows; somebody who means to deceive can
    make other records with the same one.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    records: int
    first_offset: int | None
    last_offset: int | None
    least_timestamp: int | None
    largest_timestamp: int | None
    content_bytes: int
    fingerprint: str


class RecordAdmin(AdminCalls):
    """Deletes and digests records, and looks offsets up by name or time, at the partitions' leaders."""

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
        """Delete all records before an offset of each partition; -1 stands for the high watermark.

        AdminError with OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, … for those that failed.
        """
        wanted = {TopicPartition(*each): offset for each, offset in offsets.items()}
        results = Results("deleting records of", of_leaders=True)
        await self._watch_leaders(wanted)

        async def attempt() -> None:
            left = {each: offset for each, offset in wanted.items() if results.lacks(each)}
            for leader, asked in self._group_by_leader(left).items():
                await self._delete_on(leader, asked, results)

        await self._retrying(attempt, "deleting records")
        results.raise_failures()
        results.ensure_complete(wanted)
        return [results.done[str(each)] for each in wanted]

    async def _delete_on(self, leader: int, asked: Mapping[TopicPartition, int], results: Results) -> None:
        m = messages.delete_records_request
        topics = group_by_topic(
            (topic, m.DeleteRecordsPartition(partition_index=partition, offset=offset))
            for (topic, partition), offset in asked.items()
        )
        request = m.DeleteRecordsRequest(
            topics=[m.DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=self._request_timeout_ms,
        )
        response = await self._cluster.request(leader, request)
        results.record_answers(
            (
                each := TopicPartition(topic.name, answer.partition_index),
                answer,
                DeletedRecords(each, answer.low_watermark),
            )
            for topic in response.topics
            for answer in topic.partitions
        )

    async def digest_records(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        since_ms: int = LEAST_INT64,
        until_ms: int | None = None,
        fresh: bool = False,
        part_offsets: int | None = None,
    ) -> list[DigestedRange]:
        """Return the digests of the committed records of partitions, from the first offset of a range to before the second.

        Of those, records count that have timestamps from `since_ms` to before `until_ms`: by default all. With `part_offsets` there is
        one for each part of a range that lies between two multiples of it, for one pass over the records.

        Brokers keep digests of what they have read once; a `fresh` one is made of the bytes that lie on their disks now. AdminError with
        OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, TOPIC_AUTHORIZATION_FAILED, … for those that failed, REQUEST_TIMED_OUT for an end that
        is not committed in time. Ranges that follow each other have the digests of the whole when records, bytes and fingerprints are
        added up, fingerprints modulo 2**128.
        """
        from kafkalite.client.admin.record_digests import RangeDigester
        from kafkalite.protocol.record_batches.record_digest import Times

        times = Times(since_ms, LARGEST_INT64 + 1 if until_ms is None else check_int64(until_ms))
        check_int64(since_ms)
        wanted = {TopicPartition(*each): span for each, span in ranges.items()}
        for each, (start, end) in wanted.items():
            if not 0 <= start <= end:
                raise ValueError(f"{each}: {start} to {end} is no range of offsets")
        is_new = self._cluster.watch_topics({each.topic for each in wanted})
        if is_new or any(self._cluster.view.partition(each) is None for each in wanted):
            await self._watch_leaders(wanted)
        at_once = asyncio.Semaphore(_RANGES_AT_ONCE)

        async def digest(each: TopicPartition) -> list[DigestedRange]:
            start, end = wanted[each]
            ends = _part_ends(start, end, part_offsets)
            digester = RangeDigester(self._cluster, each, start, end, self._api_timeout_s, times=times, fresh=fresh)
            async with at_once:
                found = await digester.digest_parts(ends)
            return [
                _make_digested_range(each, *span, one)
                for span, one in zip(pairwise([start, *ends]), found, strict=True)
            ]

        return [one for some in (await each_of(wanted, digest)).values() for one in some]

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int | str],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        described: Mapping[str, TopicDescription] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the offset of "earliest", "latest", "max-timestamp", or the first at or after a time (ms).

        None where no record is that young. UNKNOWN_TOPIC_OR_PARTITION when there is no such topic. With the topics as they
        were `described` just now, by name, the cluster is not asked again who leads their partitions.
        """
        isolation = isolation_number(isolation_level)
        timestamps: dict[TopicPartition, int] = {}
        for each, value in wanted.items():
            if isinstance(value, str) and value not in _OFFSETS_BY_NAME:
                raise ValueError(f"no offset {value!r}; there are {', '.join(_OFFSETS_BY_NAME)} and times in ms")
            timestamps[TopicPartition(*each)] = _OFFSETS_BY_NAME[value] if isinstance(value, str) else value
        if described is None:
            known: Known = (await self._cluster.fetch_topics(sorted({each.topic for each in timestamps}))).partition
        else:
            known = partial(_find_partition, described)
        return await list_offsets(self._cluster, timestamps, isolation, self._api_timeout_s, known)


def _find_partition(described: Mapping[str, TopicDescription], each: TopicPartition) -> PartitionView | None:
    return topic.partition(each.partition) if (topic := described.get(each.topic)) is not None else None


def _part_ends(start: int, end: int, part_offsets: int | None) -> list[int]:
    """Return where the parts of a range end. ValueError."""
    if part_offsets is None:
        return [end]
    if part_offsets < 1:
        raise ValueError(f"part_offsets is {part_offsets}, and has to be 1 or more")
    return [*range((start // part_offsets + 1) * part_offsets, end, part_offsets), end]


def _make_digested_range(place: TopicPartition, start: int, end: int, digest: RangeDigest) -> DigestedRange:
    return DigestedRange(
        place,
        start,
        end,
        digest.records,
        digest.first_offset if digest.records else None,
        digest.last_offset if digest.records else None,
        digest.least_timestamp if digest.records else None,
        digest.largest_timestamp if digest.records else None,
        digest.content_bytes,
        f"{digest.fingerprint:032x}",
    )

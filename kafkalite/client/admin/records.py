"""Administration of records: deleted up to an offset, and offsets found by name or time. Asked of the leaders. A part of `Admin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.client.admin.calls import AdminCalls, Results
from kafkalite.client.cluster.offset_lookup import EARLIEST, LATEST, MAX_TIMESTAMP, Known, list_offsets
from kafkalite.client.offsets import OffsetAndTimestamp
from kafkalite.client.plain_values import PlainValues
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic

if TYPE_CHECKING:
    from kafkalite.client.admin.topics import TopicDescription
    from kafkalite.client.cluster.view import PartitionView

_OFFSETS_BY_NAME: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}
HIGH_WATERMARK: Final = -1
"""Where to delete records up to: all that are committed."""


@dataclass(frozen=True, slots=True)
class DeletedRecords(PlainValues):
    """The first offset that a partition still has after `delete_records`."""

    topic_partition: TopicPartition
    low_watermark: int


class RecordAdmin(AdminCalls):
    """Deletes records up to an offset and looks offsets up by name or time, at the partitions' leaders."""

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

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        described: Mapping[str, TopicDescription] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the offset of "earliest", "latest", "max-timestamp", or the first at or after a time (ms).

        None where no record is that young. UNKNOWN_TOPIC_OR_PARTITION when there is no such topic. With the topics as they
        were `described` just now, by name, the cluster is not asked again who leads their partitions.
        """
        levels = {"read_uncommitted": 0, "read_committed": 1}
        if isolation_level not in levels:
            raise ValueError(f"isolation_level is {isolation_level!r}; it may be {', '.join(levels)}")
        timestamps: dict[TopicPartition, int] = {}
        for each, value in wanted.items():
            if isinstance(value, str) and value not in _OFFSETS_BY_NAME:
                raise ValueError(f"no offset {value!r}; there are {', '.join(_OFFSETS_BY_NAME)} and times in ms")
            timestamps[TopicPartition(*each)] = _OFFSETS_BY_NAME[value] if isinstance(value, str) else value
        if described is None:
            known: Known = (await self._cluster.fetch_topics(sorted({each.topic for each in timestamps}))).partition
        else:
            known = partial(_find_partition, described)
        return await list_offsets(self._cluster, timestamps, levels[isolation_level], self._api_timeout_s, known)


def _find_partition(described: Mapping[str, TopicDescription], each: TopicPartition) -> PartitionView | None:
    return topic.partition(each.partition) if (topic := described.get(each.topic)) is not None else None

"""The way back after a switch: what the target got since then is copied into the source, at the same offsets.

The target leads, and is asked as by a consumer. Its batches go to the source's leaders by CopyRecords, which append them where their own
log ends and replicate them as all others. Nothing is kept on disk: the source's high watermark says how far the copy is, and its last
batch, compared with that of the target, that nobody else has written to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror import copying, producer_ids
from kafkalite.cli.mirror.absence import find_unknown
from kafkalite.cli.mirror.administered.reading import describe_topic
from kafkalite.cli.mirror.back.seam import compare_batches
from kafkalite.cli.mirror.back.verdicts import judge_topic
from kafkalite.cli.mirror.batch_headers import read_headers
from kafkalite.cli.mirror.clusters import Clusters, read_ends
from kafkalite.client.errors import ClientError, error_of
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    assemble_batch,
    iter_batches,
)
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.cli.mirror.back.deleted_records import Starts
    from kafkalite.cli.mirror.plan import KnownTopic, MirroredTopic
    from kafkalite.client import Admin
    from kafkalite.client.cluster.client import ClusterClient

_AT_ONCE: Final = 16
"""Partitions that are copied together."""
_FETCH_BYTES: Final = 1024 * 1024
_ANSWER_S: Final = 30.0
_COMMIT_MS: Final = 20_000
_LATEST_EPOCH: Final = -1


class WayBack:
    """Copies the records of `topics`, which a switch has handed over, and the offsets of all groups there."""

    def __init__(
        self, clusters: Clusters, topics: Mapping[str, KnownTopic], is_left: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Take what is known of topics, and what says which of them are left in the target."""
        self._clusters, self._known, self._is_left = clusters, topics, is_left
        self.deletes: Starts = {}
        """Partitions of the source that lose the records before the target's log start, which somebody has agreed to."""
        self._joined: dict[TopicPartition, int] = {}
        """Where the source ended when its log was known to be that of the target up to there. An end that differs is compared again:
        somebody else may have written to the source, and the target may have got more since.
        """
        self._offsets: copying.GroupOffsets = {}
        self._highest_producer_id = -1
        self._used_up = -1
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.offsets = 0
        """How many were copied, those of markers and gaps included."""
        self.behind: list[str] = []
        """Why the source is not level with the target, though nothing is wrong: the target goes on."""

    @property
    def groups(self) -> int:
        """Return of how many groups offsets were copied."""
        return len({group for group, _ in self._offsets})

    async def copy_once(self) -> list[str]:
        """Copy what is new, and return what is wrong; `behind` says what else keeps the source from being level.

        Raises ClientError, OSError.
        """
        clusters, known = self._clusters, self._select_known()
        for each in (clusters.source_cluster, clusters.target_cluster):
            each.watch_topics(known)
            await each.refresh()
        self.behind = []
        places, problems = await self._find_copied(known)
        return problems + await self._copy_partitions(places)

    async def find_moved_starts(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return where partitions begin in the source and in the target, of those that begin later in the target: records were deleted
        there by DeleteRecords, or by retention, which nothing tells apart. Raises ClientError, OSError.
        """
        places, _ = await self._find_copied(self._select_known())
        ours = await self._clusters.source.list_offsets(dict.fromkeys(places, "earliest"))
        theirs = await self._clusters.target.list_offsets(dict.fromkeys(places, "earliest"))
        found = {}
        for place in places:
            starts = ours[place], theirs[place]
            if starts[0] is not None and starts[1] is not None and starts[0].offset < starts[1].offset:
                found[place] = starts[0].offset, starts[1].offset
        return found

    def _select_known(self) -> list[str]:
        return [name for name, each in self._known.items() if not self._is_left(name) and not each.is_unconfirmed]

    async def _find_copied(self, known: Collection[str]) -> tuple[list[TopicPartition], list[str]]:
        """Return the partitions that can be copied, and why others cannot."""
        clusters = self._clusters
        source = await copying.read_topics(clusters.source, known)
        target = await copying.read_topics(clusters.target, known)
        unknown = await find_unknown(clusters.source_cluster, "source", set(known) - source.keys())
        unknown |= await find_unknown(clusters.target_cluster, "target", set(known) - target.keys())
        why = {
            name: f"topic {name} {unknown[name]}" if name in unknown else self._judge_topic(name, source, target)
            for name in known
        }
        copied = [name for name in source if not why[name]]
        places = [TopicPartition(name, each.partition) for name in copied for each in source[name].partitions]
        return places, [each for each in why.values() if each]

    def _judge_topic(self, name: str, source: Mapping[str, MirroredTopic], target: Mapping[str, MirroredTopic]) -> str:
        """Return why a topic cannot be copied back and what to do, empty if it can or there is nothing to be copied."""
        ours, theirs = (None if (each := side.get(name)) is None else describe_topic(each) for side in (source, target))
        return judge_topic(name, self._known[name], ours, theirs)

    async def _copy_partitions(self, places: list[TopicPartition]) -> list[str]:
        clusters = self._clusters
        ends, _ = await read_ends(clusters.source, places)
        wanted, stable = await read_ends(clusters.target, places)
        found = await asyncio.gather(*(self._copy_safely(each, ends[each], wanted[each]) for each in places))
        problems = [each for each in found if each]
        self.behind += [
            f"{place}: a transaction is open in the target since offset {stable[place]}"
            for place in places
            if stable[place] < wanted[place]
        ]
        whole = {each for each, why in zip(places, found, strict=True) if not why}  # of others the source may know more
        failed = await copying.copy_group_offsets(
            clusters.target, clusters.source, whole.__contains__, self._offsets, with_epochs=False
        )
        problems += failed.values()
        await self._use_up_producer_ids(places)
        if not problems:
            now, _ = await read_ends(clusters.target, places)
            self.behind += [
                f"{each}: the target went on to offset {now[each]}" for each in places if now[each] != wanted[each]
            ]
        return problems

    async def _use_up_producer_ids(self, places: list[TopicPartition]) -> None:
        """Keep the source from giving out ids that producers have got in the target."""
        there = await producer_ids.find_highest(self._clusters.target, places)
        highest = max(self._highest_producer_id, there)
        if highest > self._used_up:
            cluster = self._clusters.source_cluster
            await producer_ids.use_up(cluster, list(cluster.view.brokers), highest)
            self._used_up = highest

    async def _copy_safely(self, place: TopicPartition, end: int, wanted: int) -> str:
        """Copy one partition up to offset `wanted`, and delete what is to be deleted; return what kept it from happening."""
        async with self._slots:
            try:
                why = await self._copy(place, end, wanted)
                if not why and place in self.deletes:
                    await self._delete_records(place)
                return why
            except (OSError, TimeoutError, ClientError) as problem:
                self._joined.pop(place, None)
                return f"{place}: {problem}"

    async def _copy(self, place: TopicPartition, end: int, wanted: int) -> str:
        if end > wanted:
            self._joined.pop(place, None)
            return f"{place}: the source ends at offset {end} and the target at {wanted}: the source has got records of its own"
        if place in self.deletes and end and end < await _find_log_start(self._clusters.target, place) <= wanted:
            end = self._joined[place] = await self._begin_at(place, end)  # nothing is left to be compared
        if self._joined.get(place) != end:
            if why := await self._compare_seam(place, end):
                return f"{place}: {why}"
            self._joined[place] = end
        while end < wanted:
            answer = await self._fetch(self._clusters.target_cluster, place, end, _FETCH_BYTES)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start = await _find_log_start(self._clusters.target, place)
                if end < start <= wanted and (end == 0 or place in self.deletes):
                    end = self._joined[place] = await self._begin_at(place, end)
                    continue
                return f"{place}: the source ends at offset {end}, and the target has nothing before {start} any more"
            records = answer.records or b""
            if next(iter_batches(records), None) is None:
                return f"{place}: the target gave nothing at offset {end}, and ends at {wanted}"
            self._highest_producer_id = max(self._highest_producer_id, read_headers(records)[1])
            begin, end = end, await self._append(place, end, bytes(records))
            self._joined[place] = end
            self.offsets += end - begin
        return ""

    async def _begin_at(self, place: TopicPartition, end: int) -> int:
        """Have a log of the source, of which the target has nothing any more, begin where that of the target does; return the new end.

        An empty batch, as compaction leaves them, takes the log to the target's first batch, which may begin before its log start. Both
        are appended at once, so that what is there after an interruption can be compared with the target. Raises ClientError, OSError.
        """
        start = await _find_log_start(self._clusters.target, place)
        answer = await self._fetch(self._clusters.target_cluster, place, start, _FETCH_BYTES)
        records = bytes(answer.records or b"")
        first = next(iter_batches(records), None)
        begin = max(end, start if first is None else first.base_offset)
        self._highest_producer_id = max(self._highest_producer_id, read_headers(records)[1])
        end = await self._append(place, end, (_make_empty_batch(begin - 1) if begin > end else b"") + records)
        await self._clusters.source.delete_records({place: start})
        self.offsets += end - begin
        return end

    async def _delete_records(self, place: TopicPartition) -> None:
        """Delete in the source what the target has not any more. Raises ClientError, OSError."""
        start = await _find_log_start(self._clusters.target, place)
        if start > await _find_log_start(self._clusters.source, place) >= 0:
            await self._clusters.source.delete_records({place: start})

    async def _compare_seam(self, place: TopicPartition, end: int) -> str:
        """Return why the logs are not the same up to the end of the source, empty if they are. Raises ClientError, OSError."""
        if end == 0:
            return ""
        ours = await self._fetch(self._clusters.source_cluster, place, end - 1, 1)
        theirs = await self._fetch(self._clusters.target_cluster, place, end - 1, 1)
        for answer, admin in ((ours, self._clusters.source), (theirs, self._clusters.target)):
            if answer.error_code:  # out of range
                is_empty = await _find_log_start(admin, place) == end
                return "" if is_empty else f"nothing is left at offset {end - 1} to be compared"
        return compare_batches(ours.records or b"", theirs.records or b"", end - 1)

    async def _fetch(self, cluster: ClusterClient, place: TopicPartition, offset: int, max_bytes: int) -> Any:
        """Return what a partition's leader has from an offset on, or OFFSET_OUT_OF_RANGE. Raises ClientError, OSError."""
        m = messages.fetch_request
        view = cluster.view
        question = m.FetchPartition(
            partition=place.partition,
            current_leader_epoch=_LATEST_EPOCH,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        topic = view.topics.get(place.topic)
        if topic is None:
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(place))
        asked = m.FetchTopic(topic=place.topic, topic_id=topic.topic_id, partitions=[question])
        request = m.FetchRequest(max_bytes=max_bytes, session_epoch=-1, topics=[asked])
        response = await cluster.request(view.leader_of(place), request)
        answers = [each for some in response.responses for each in some.partitions]
        code = response.error_code or (answers[0].error_code if answers else ErrorCode.UNKNOWN_SERVER_ERROR)
        if code and code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise error_of(code, f"reading {place}")
        return answers[0]

    async def _append(self, place: TopicPartition, end: int, records: bytes) -> int:
        """Have the source's leader append batches where its log ends; return the new end. Raises ClientError, OSError."""
        cluster = self._clusters.source_cluster
        connection = await cluster.connection(cluster.view.leader_of(place))
        request = messages.CopyRecordsRequest(
            topic=place.topic,
            partition_index=place.partition,
            log_end_offset=end,
            timeout_ms=_COMMIT_MS,
            records=records,
        )
        try:
            response = await connection.request(request, 0, _ANSWER_S)
        except ConnectionError as problem:
            why = "is it the listener between the brokers of kafkalite? others do not take copies"
            raise ConnectionError(f"{problem}; {why}") from problem
        if response.error_code:
            raise error_of(response.error_code, f"appending at offset {end}", response.error_message)
        return response.log_end_offset


async def _find_log_start(admin: Admin, place: TopicPartition) -> int:
    found = (await admin.list_offsets({place: "earliest"}))[place]
    return -1 if found is None else found.offset


def _make_empty_batch(offset: int) -> bytes:
    """Return a batch without records at an offset."""
    return bytes(
        assemble_batch(
            b"",
            records_count=0,
            last_offset_delta=0,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            base_offset=offset,
            leader_epoch=0,
            attributes=0,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
        )
    )

"""Versions that Kafka 4 dropped, over dispatch and codec: offsets in ZooKeeper, offsets by segments, and what only old answers have."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from kafkalite.broker.coordination.zookeeper_offsets import AT_ONCE, ZooKeeperOffsets
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition
from tests.unit.broker.memory_parts import MemoryParts, know, leader
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import Stat, StoreClosedError, Watcher

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


class CountingStore(MemoryStore):
    """Knows how many reads were under way at the same time at most."""

    busy = most_busy = 0

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(0)
            return await super().read(path, watcher)
        finally:
            self.busy -= 1


class Site:
    """A broker with topic `t` of ten partitions and a ZooKeeper in memory."""

    def __init__(self) -> None:
        self.store = CountingStore(MemoryZooKeeper())
        self.parts: Any = MemoryParts(leader())
        self.parts.zookeeper_offsets = ZooKeeperOffsets(self.store)
        for index in range(10):
            know(self.parts.metadata, TopicPartition("t", index))

    async def commit(self, group: str, *offsets: tuple[int, int], metadata: str = "", topic: str = "t") -> list[int]:
        m = messages.offset_commit_request
        partitions = [
            m.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index, offset in offsets
        ]
        request = m.OffsetCommitRequest(
            group_id=group, topics=[m.OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        )
        (answered,) = (await self.parts.ask(request, 0)).topics
        assert [each.partition_index for each in answered.partitions] == [index for index, _ in offsets]
        return [each.error_code for each in answered.partitions]

    async def fetch(self, group: str, *indexes: int, topic: str = "t") -> list[tuple[int, int]]:
        m = messages.offset_fetch_request
        topics = [m.OffsetFetchRequestTopics(name=topic, partition_indexes=list(indexes))]
        request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id=group, topics=topics)])
        ((answered,),) = [each.topics for each in (await self.parts.ask(request, 0)).groups]
        return [(each.committed_offset, each.error_code) for each in answered.partitions]


def play(scenario: Any) -> None:
    async def run() -> None:
        site = Site()
        await site.store.start(1)
        await scenario(site)
        await site.store.close()

    asyncio.run(run())


def test_offsets_lie_in_zookeeper_as_text() -> None:
    async def scenario(site: Site) -> None:
        assert await site.fetch("g", 0) == [(-1, UNKNOWN)]
        assert await site.commit("g", (0, 7), (1, 2**62), metadata="not kept") == [0, 0]
        assert await site.commit("g", (0, 8)) == [0]
        assert (await site.store.read("/consumers/g/offsets/t/0"))[0] == b"8"
        assert await site.fetch("g", 1, 0, 2) == [(2**62, 0), (8, 0), (-1, UNKNOWN)]
        assert await site.fetch("other", 0) == [(-1, UNKNOWN)]

    play(scenario)


def test_partitions_that_there_are_not_have_no_offsets() -> None:
    async def scenario(site: Site) -> None:
        assert await site.commit("g", (0, 7), (10, 7), (-1, 7)) == [0, UNKNOWN, UNKNOWN]
        assert await site.commit("g", (0, 7), topic="absent") == [UNKNOWN]
        assert await site.fetch("g", 0, 10) == [(7, 0), (-1, UNKNOWN)]
        assert await site.fetch("g", 0, topic="absent") == [(-1, UNKNOWN)]
        assert await site.commit("g", (1, 7), metadata="m" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert await site.fetch("g", 1) == [(-1, UNKNOWN)]

    play(scenario)


def test_a_partition_that_is_named_twice_keeps_the_last_offset_and_is_fetched_once() -> None:
    async def scenario(site: Site) -> None:
        assert await site.commit("g", (0, 8), (0, 9)) == [0, 0]
        assert await site.fetch("g", 0, 0) == [(9, 0)]

    play(scenario)


@pytest.mark.parametrize("group", ["", "/", "..", "a//b", "a\0b", "a\x01b"])
def test_a_group_whose_name_is_none_of_a_znode_fails(group: str) -> None:
    async def scenario(site: Site) -> None:
        assert await site.commit(group, (0, 7)) == [FAILED]
        assert await site.fetch(group, 0, 99) == [(-1, FAILED), (-1, UNKNOWN)]

    play(scenario)


@pytest.mark.parametrize("content", [b"", b" 7", b"7_0", b"x", b"9223372036854775808", b"1" * 5000])
def test_a_znode_that_is_no_number_fails_alone(content: bytes) -> None:
    async def scenario(site: Site) -> None:
        await site.commit("g", (1, 7))
        await site.store.create("/consumers/g/offsets/t/0", content)
        assert await site.fetch("g", 0, 1) == [(-1, FAILED), (7, 0)]

    play(scenario)


def test_without_a_session_offsets_fail() -> None:
    async def scenario(site: Site) -> None:
        await site.commit("g", (0, 7))
        await site.store.close()
        with pytest.raises(StoreClosedError):
            await site.store.read("/")
        assert await site.commit("g", (0, 8)) == [FAILED]
        assert await site.fetch("g", 0) == [(-1, FAILED)]

    play(scenario)


def test_two_that_make_a_znode_at_once_both_succeed() -> None:
    async def scenario(site: Site) -> None:
        found = await asyncio.gather(*(site.commit("g", (0, offset)) for offset in range(5)))
        assert found == [[0]] * 5
        assert await site.fetch("g", 0) in [[(offset, 0)] for offset in range(5)]

    play(scenario)


def test_however_many_ask_few_reads_are_under_way() -> None:
    async def scenario(site: Site) -> None:
        offsets = ZooKeeperOffsets(site.store)
        many = [TopicPartition("t", index) for index in range(3 * AT_ONCE)]
        found = await asyncio.gather(*(offsets.fetch(f"g{number}", many) for number in range(3)))
        assert all(list(each) == many for each in found)
        assert site.store.most_busy == AT_ONCE

    play(scenario)


# ListOffsets 0


class FakeSegment(NamedTuple):
    base_offset: int
    modified_ms: int
    size: int


class FakeSegments(list[FakeSegment]):
    @property
    def active(self) -> FakeSegment:
        return self[-1]


@pytest.mark.parametrize(
    ("timestamp", "most", "replica_id", "found"),
    [
        (-1, 1, -1, [9]),
        (-1, 9, -1, [9, 8, 4, 2]),
        (-1, 9, 2, [10, 8, 4, 2]),
        (-1, 9, -2, [10, 8, 4, 2]),
        (-1, 2, -1, [9, 8]),
        (-1, 0, -1, []),
        (-2, 9, -1, [2]),
        (499, 9, -1, []),
        (500, 9, -1, [2]),
        (799, 9, -1, [4, 2]),
        (799, 1, -1, [4]),
        (1 << 62, 9, -1, [9, 8, 4, 2]),
    ],
)
def test_offsets_are_found_by_the_times_of_segments(
    timestamp: int, most: int, replica_id: int, found: list[int]
) -> None:
    async def scenario() -> None:
        assert await _listed(timestamp, most, replica_id) == (0, found)

    asyncio.run(scenario())


async def _listed(timestamp: int, most: int, replica_id: int = -1, version: int = 0) -> tuple[int, list[int]]:
    partition = leader(end=10)
    log: Any = partition.log
    log.set_high_watermark(9)
    log.log_start_offset = 2
    log.segments = FakeSegments([FakeSegment(0, 500, 10), FakeSegment(4, 600, 10), FakeSegment(8, 800, 10)])
    m = messages.list_offsets_request
    asked = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    request = m.ListOffsetsRequest(
        replica_id=replica_id, topics=[m.ListOffsetsTopic(name="t", partitions=[asked, asked])]
    )
    ((one, other),) = [each.partitions for each in (await MemoryParts(partition).ask(request, version)).topics]
    if not version:
        assert one == other, "who names a partition twice is answered twice"
    return one.error_code, one.old_style_offsets


@pytest.mark.parametrize(
    ("timestamp", "version"), [(-3, 0), (-4, 0), (-5, 0), (-6, 0), (-3, 6), (-4, 7), (-5, 8), (-6, 9)]
)
def test_times_that_a_version_does_not_know_are_refused(timestamp: int, version: int) -> None:
    async def scenario() -> None:
        m = messages.list_offsets_request
        asked = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name="t", partitions=[asked])])
        (topic,) = (await MemoryParts(leader()).ask(request, version)).topics
        assert [each.error_code for each in topic.partitions] == [ErrorCode.UNSUPPORTED_VERSION]

    asyncio.run(scenario())


def test_fewer_offsets_than_none_are_an_error_as_in_kafka() -> None:
    assert asyncio.run(_listed(-1, -1)) == (FAILED, [])

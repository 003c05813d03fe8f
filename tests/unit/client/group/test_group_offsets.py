"""Commits that are tried again: what they may not do while the group goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.errors import ClientError, CommitFailedError
from kafkalite.client.group.coordinator_link import CoordinatorLink, Lane
from kafkalite.client.group.membership import Membership
from kafkalite.client.group.offsets import GroupOffsets
from kafkalite.client.group.owned_partitions import OwnedPartitions
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

P0 = TopicPartition("t", 0)


class Coordinator:
    """A link to a coordinator whose answers are decided by the test; `committed` has the offsets it took, in order."""

    group_id = "g"

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.codes: list[ErrorCode] = []
        self.before_answer: Callable[[int], Awaitable[None]] | None = None
        self.forgotten = 0

    async def request(self, message: Any, lane: Lane, timeout_s: float) -> Any:
        offset = message.topics[0].partitions[0].committed_offset
        if self.before_answer is not None:
            await self.before_answer(offset)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NONE:
            self.committed.append(offset)
        m = messages.offset_commit_response
        partition = m.OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return m.OffsetCommitResponse(topics=[m.OffsetCommitResponseTopic(name="t", partitions=[partition])])

    def forget(self) -> None:
        self.forgotten += 1


@dataclass(frozen=True)
class View:
    """The topics of a `ClusterView`."""

    topics: set[str]


class Cluster:
    """Tries again at once; `topics` is what metadata tells after 0, 1, … tries, the last for good."""

    def __init__(self) -> None:
        self.topics = [{"t"}]
        self.tries = 0

    @property
    def view(self) -> View:
        return View(self.topics[0])

    async def retrying(self, attempt: Callable[[], Awaitable[Any]], what: str, timeout_s: float) -> Any:
        while True:
            self.tries += 1
            try:
                return await attempt()
            except ClientError as problem:
                if not problem.retriable:
                    raise
                self.topics = self.topics[1:] or self.topics
                await asyncio.sleep(0)


class Member:
    """As much of a membership as commits look at."""

    topics = frozenset({"t"})
    is_member = True
    generation = 5
    member_id = "m"

    class settings:
        group_instance_id = None

    def __init__(self) -> None:
        self.partitions = OwnedPartitions()
        self.partitions.tenures = {P0: 1}

    joins = False
    """True while its JoinGroup is under way."""

    def may_have_left(self, generation: int) -> bool:
        return self.joins

    def handle_commit_error(self, code: int, generation: int, member_id: str) -> None:
        pass


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def offsets(coordinator: Coordinator, cluster: Cluster) -> GroupOffsets:
    member = cast(Membership, Member())
    return GroupOffsets(cast(ClusterClient, cluster), cast(CoordinatorLink, coordinator), 1.0, member)


def at(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {P0: OffsetAndMetadata(offset)}


def test_a_commit_is_tried_again_at_the_new_coordinator(coordinator: Coordinator, offsets: GroupOffsets) -> None:
    coordinator.codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    asyncio.run(offsets.commit(at(10), 5))
    assert coordinator.committed == [10] and coordinator.forgotten == 1


@pytest.mark.parametrize("without_deleted", [True, False])
def test_what_is_read_from_a_topic_that_is_deleted_then_need_not_be_committed(
    coordinator: Coordinator,
    cluster: Cluster,
    offsets: GroupOffsets,
    without_deleted: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or closing a consumer would wait for a topic that is gone until its time is over."""
    cluster.topics = [{"t"}, set()]
    coordinator.codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    asyncio.run(offsets.commit(at(10), 5, without_deleted=without_deleted))
    assert (coordinator.committed, len(coordinator.codes)) == (([], 2) if without_deleted else ([10], 0))
    assert ("offsets of topics that are gone are not committed: t" in caplog.text) == without_deleted


@pytest.mark.parametrize("lagging", ["metadata", "the coordinator", "both in turn"])
def test_what_was_read_is_committed_though_a_broker_has_not_heard_of_the_topic(
    coordinator: Coordinator, cluster: Cluster, offsets: GroupOffsets, lagging: str
) -> None:
    """At a revocation nothing tries again later: the next owner would read from the old offset."""
    if lagging != "the coordinator":
        cluster.topics = [set(), {"t"}]
    if lagging != "metadata":
        coordinator.codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    asyncio.run(offsets.commit(at(10), 5, without_deleted=True))
    assert coordinator.committed == [10]


def test_a_commit_is_not_tried_again_after_the_partition_was_lost(
    coordinator: Coordinator, offsets: GroupOffsets
) -> None:
    """Another member has read on and committed 20; then the partition came back. Committing 10 would let the group go back."""
    member = cast(Member, offsets.membership)

    async def lost_and_regained(offset: int) -> None:
        member.generation, member.partitions.tenures = 7, {P0: 3}

    coordinator.codes = [ErrorCode.NOT_COORDINATOR]
    coordinator.before_answer = lost_and_regained
    with pytest.raises(CommitFailedError) as caught:
        asyncio.run(offsets.commit(at(10), 5))
    assert coordinator.committed == []
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION and not caught.value.retriable


def test_a_commit_that_the_members_own_join_overtook_is_made_in_the_next_generation(
    coordinator: Coordinator, offsets: GroupOffsets
) -> None:
    """The partition is still its own, and was all the time: with the commit given up, another member would read it again."""
    member = cast(Member, offsets.membership)

    async def wait_for_group(partitions: Iterable[TopicPartition]) -> bool:
        member.joins, member.generation = False, 6
        return True

    member.joins = True
    coordinator.codes = [ErrorCode.ILLEGAL_GENERATION]
    asyncio.run(offsets.commit(at(10), 5, wait_for_group))
    assert coordinator.committed == [10]
    coordinator.codes = [ErrorCode.ILLEGAL_GENERATION]
    with pytest.raises(CommitFailedError) as caught:
        asyncio.run(offsets.commit(at(11), 5, wait_for_group))
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION and coordinator.committed == [10]


def test_a_commit_pauses_while_the_group_has_no_generation_for_it(
    coordinator: Coordinator, cluster: Cluster, offsets: GroupOffsets
) -> None:
    """Nothing is sent then, and the group may be said to be stable: without a pause the event loop would stand still."""
    member = cast(Member, offsets.membership)
    member.generation, waits = -1, []

    async def wait_for_group(partitions: Iterable[TopicPartition]) -> bool:
        waits.append(partitions)
        member.generation = 6 if len(waits) == 3 else -1
        return True

    asyncio.run(offsets.commit(at(10), 5, wait_for_group))
    assert coordinator.committed == [10] and (len(waits), cluster.tries) == (3, 4)


def test_what_was_read_before_the_partition_was_lost_is_not_committed(
    coordinator: Coordinator, offsets: GroupOffsets
) -> None:
    with pytest.raises(CommitFailedError):
        asyncio.run(offsets.commit(at(10), 5, tenures={P0: 0}))
    assert coordinator.committed == []
    asyncio.run(offsets.commit(at(11), 5, tenures={}))
    assert coordinator.committed == [11], "of a partition that it did not read then, it may say what it likes"


def test_of_two_commits_under_way_the_later_one_counts(coordinator: Coordinator, offsets: GroupOffsets) -> None:
    """The first one finds its coordinator gone; it must not overwrite the second when it is tried again."""
    coordinator.codes = [ErrorCode.NOT_COORDINATOR]

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            for offset in (10, 20):
                tasks.create_task(offsets.commit(at(offset), 5))

    asyncio.run(both())
    assert coordinator.committed == [20]

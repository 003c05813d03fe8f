"""AlterPartition: Kafka's order of checks, what is written, what is told; ISR notifications of older leaders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.controller import isr_changes
from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.requests import AlterPartition, IsrProposal, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.znodes import IsrChange, PartitionName


async def _cluster(partitions: int = 1) -> FakeCluster:
    cluster = await FakeCluster().start(1, 2, 3)
    await cluster.create_topic("t", *([[1, 2, 3]] * partitions))
    await asyncio.sleep(1.0)  # what was published last is past
    return cluster


def _sent_metadata(cluster: FakeCluster) -> list[int]:
    """Return how many UpdateMetadata each broker has got."""
    return [len(broker.requests(ApiKey.UPDATE_METADATA)) for broker in cluster.brokers.values()]


def _isrs(cluster: FakeCluster, partitions: int) -> list[list[int]]:
    """Return the ISRs of partitions of topic t in the latest metadata of a broker."""
    return [cluster.brokers[3].metadata_of(f"t-{partition}")[-1].isr for partition in range(partitions)]


def test_a_shrink_and_an_expansion_keep_the_leader_epoch() -> None:
    async def scenario() -> None:
        cluster = await _cluster()
        told = [len(broker.requests(ApiKey.LEADER_AND_ISR)) for broker in cluster.brokers.values()]
        answer = await cluster.alter_partition("t-0", 1, [1, 2])
        assert isinstance(answer, Leadership)
        assert (answer.leader, answer.isr, answer.partition_epoch) == (1, (1, 2), 1)
        assert await cluster.short_state("t-0") == (1, [1, 2], 0)
        for broker in cluster.brokers.values():
            assert broker.metadata_of("t-0")[-1].isr == [1, 2]
        answer = await cluster.alter_partition("t-0", 1, [1, 2, 3])
        assert isinstance(answer, Leadership)
        assert answer.partition_epoch == 2
        assert told == [len(broker.requests(ApiKey.LEADER_AND_ISR)) for broker in cluster.brokers.values()]
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1, 2], {"partition_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([3, 2, 1], {"partition_epoch": -1}, ErrorCode.NONE),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], {"recovering": True}, ErrorCode.INVALID_REQUEST),
        ([1], {"recovering": True}, ErrorCode.INVALID_REQUEST),
        ([1, 9], {}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals_of_a_partition(isr: list[int], changes: dict[str, Any], code: ErrorCode) -> None:
    async def scenario() -> None:
        cluster = await _cluster()
        assert code_of(await cluster.alter_partition("t-0", 1, isr, **changes)) == code
        assert await cluster.short_state("t-0") == (1, [1, 2, 3], 0)
        await cluster.stop()

    run(scenario())


def test_refusals_of_a_request_and_unknown_topics() -> None:
    async def scenario() -> None:
        cluster = await _cluster()
        with pytest.raises(KafkaError) as refused:
            await cluster.alter_partition("t-0", 1, [1, 2], broker_epoch=cluster.brokers[1].epoch + 1)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError) as refused:
            await cluster.members[2].controller.alter_partition(AlterPartition(2, 0, ()))
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        references = (TopicReference(topic_id=b"x" * 16), TopicReference(), TopicReference("ghost"))
        proposals = tuple(IsrProposal(each, 0, 0, (1,), False, 0) for each in references)
        request = AlterPartition(1, cluster.brokers[1].epoch, proposals)
        assert [code_of(outcome) for outcome in await cluster.controller.alter_partition(request)] == [
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        await cluster.stop()

    run(scenario())


def test_a_state_changed_behind_the_controllers_back() -> None:
    async def scenario() -> None:
        cluster = await _cluster()
        state, version = await cluster.state_and_version("t-0")
        await cluster.tool.write(paths.partition_state("t", 0), state.encode(), version)
        answer = await cluster.alter_partition("t-0", 1, [1, 2], partition_epoch=version)
        assert code_of(answer) == ErrorCode.INVALID_UPDATE_VERSION
        await cluster.stop()

    run(scenario())


def test_a_replica_that_is_shutting_down_may_not_join() -> None:
    async def scenario() -> None:
        cluster = await _cluster()
        await cluster.alter_partition("t-0", 1, [1, 2])
        await cluster.controller.controlled_shutdown(3, cluster.brokers[3].epoch)
        assert code_of(await cluster.alter_partition("t-0", 1, [1, 2, 3])) == ErrorCode.INELIGIBLE_REPLICA
        await cluster.stop()

    run(scenario())


def test_isr_changes_in_short_time_are_published_together() -> None:
    """A restarted broker joined the ISRs of its partitions one by one, and a hundred brokers were sent metadata for each."""

    async def scenario() -> None:
        cluster = await _cluster(6)
        before = _sent_metadata(cluster)
        for partition in range(6):
            await cluster.alter_partition(f"t-{partition}", 1, [1, 2])
            await cluster.quiet()
        assert _isrs(cluster, 6) == [[1, 2], *[[1, 2, 3]] * 5], "the first one is not delayed"
        await asyncio.sleep(1.0)
        assert _isrs(cluster, 6) == [[1, 2]] * 6
        await cluster.alter_partition("t-5", 1, [1])
        await cluster.quiet()
        assert _isrs(cluster, 6) == [*[[1, 2]] * 5, [1]], "nor is one after a quiet time"
        assert [now - then for now, then in zip(_sent_metadata(cluster), before, strict=True)] == [3, 3, 3]
        await cluster.stop()

    run(scenario())


def test_isr_changes_go_with_the_next_metadata_for_all_brokers() -> None:
    async def scenario() -> None:
        cluster = await _cluster(3)
        for partition in range(3):
            await cluster.alter_partition(f"t-{partition}", 1, [1, 2])
            await cluster.quiet()
        await cluster.create_topic("other", [3])
        assert _isrs(cluster, 3) == [[1, 2]] * 3
        before = _sent_metadata(cluster)
        await asyncio.sleep(1.0)
        assert _sent_metadata(cluster) == before, "nothing is left for the end of the window"
        await cluster.stop()

    run(scenario())


def test_an_election_does_not_wait_for_the_metadata_that_does() -> None:
    async def scenario() -> None:
        cluster = await _cluster(2)
        for partition in range(2):
            await cluster.alter_partition(f"t-{partition}", 1, [1, 3])
            await cluster.quiet()
        assert _isrs(cluster, 2) == [[1, 3], [1, 2, 3]]
        await cluster.controller.controlled_shutdown(1, cluster.brokers[1].epoch)
        await cluster.quiet()
        assert cluster.brokers[3].leaders == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 3}
        assert _isrs(cluster, 2) == [[3], [3]]
        await cluster.stop()

    run(scenario())


def test_reassignments_that_end_in_short_time_are_completed_together() -> None:
    """Each was completed on its own before its leader was answered, with three UpdateMetadata for every broker."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *([[1]] * 8))
        partitions = [TopicPartition("t", number) for number in range(8)]
        await cluster.controller.alter_partition_reassignments(dict.fromkeys(partitions, (2,)))
        await asyncio.sleep(1.0)
        before = _sent_metadata(cluster)
        await asyncio.gather(*(cluster.alter_partition(str(each), 1, [1, 2]) for each in partitions))
        await cluster.until(lambda: not cluster.controller.cluster.reassigning)
        assert [await cluster.short_state(str(each)) for each in partitions] == [(2, [2], 3)] * 8
        await asyncio.sleep(1.0)
        assert [now - then for now, then in zip(_sent_metadata(cluster), before, strict=True)] == [4, 4, 4]
        await cluster.stop()

    run(scenario())


def test_what_follows_from_many_isr_changes_is_done_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a broker's decommission was one event, for which elections waited."""
    monkeypatch.setattr(isr_changes, "_FOLLOWED_TOGETHER", 3)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *([[1]] * 8))
        partitions = [TopicPartition("t", number) for number in range(8)]
        await cluster.controller.alter_partition_reassignments(dict.fromkeys(partitions, (2,)))
        await asyncio.sleep(1.0)
        await asyncio.gather(*(cluster.alter_partition(str(each), 1, [1, 2]) for each in partitions))
        await cluster.until(lambda: not cluster.controller.cluster.reassigning)
        assert [await cluster.short_state(str(each)) for each in partitions] == [(2, [2], 3)] * 8
        assert cluster.controller.cluster.altered == {}
        await cluster.stop()

    run(scenario())


def test_isr_changes_that_wait_end_with_the_term() -> None:
    """The next controller reads them in ZooKeeper."""

    async def scenario() -> None:
        cluster = await _cluster(2)
        for partition in range(2):
            await cluster.alter_partition(f"t-{partition}", 1, [1, 2])
        before = cluster.controller
        await cluster.kill(before.broker_id)
        assert cluster.controller is not before
        assert _isrs(cluster, 2) == [[2], [2]]
        sent = _sent_metadata(cluster)
        await asyncio.sleep(1.0)
        assert _sent_metadata(cluster) == sent
        await cluster.stop()

    run(scenario())


def test_notifications_of_leaders_that_write_isrs_themselves() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(inter_broker_protocol_version="2.6").start(1, 2)
        await cluster.create_topic("t", [1, 2])
        await asyncio.sleep(1.0)
        state, version = await cluster.state_and_version("t-0")
        shrunk = type(state)(1, 0, (1,), state.controller_epoch)
        await cluster.tool.write(paths.partition_state("t", 0), shrunk.encode(), version)
        note = IsrChange((PartitionName("t", 0), PartitionName("ghost", 3))).encode()
        await cluster.tool.create(paths.ISR_CHANGE_PREFIX, note, sequence=True)
        await cluster.tool.create(paths.ISR_CHANGE_PREFIX, b"garbage", sequence=True)
        await cluster.quiet()
        assert await cluster.tool.children(paths.ISR_CHANGES) == []
        seen = cluster.brokers[2].metadata_of("t-0")[-1]
        assert (seen.isr, seen.zk_version) == ([1], 1)
        await cluster.stop()

    run(scenario())

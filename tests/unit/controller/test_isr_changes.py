"""AlterPartition: Kafka's order of checks, what is written, what is told; ISR notifications of older leaders."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.requests import AlterPartition, IsrProposal, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.znodes import IsrChange, PartitionName


async def _cluster() -> FakeCluster:
    cluster = await FakeCluster().start(1, 2, 3)
    await cluster.create_topic("t", [1, 2, 3])
    return cluster


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


def test_notifications_of_leaders_that_write_isrs_themselves() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(inter_broker_protocol_version="2.6").start(1, 2)
        await cluster.create_topic("t", [1, 2])
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

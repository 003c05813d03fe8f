"""Log directories that fail, registrations that change, blocks of producer ids, unreadable znodes."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FIRST_PORT, FakeCluster
from zk import paths
from zk.znodes import BrokerRegistration, LogDirEvent, ProducerIdBlock, RegisteredEndpoint


def test_a_failed_log_directory_loses_its_leaders_until_the_broker_returns() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [2, 1], [2, 1])
        cluster.brokers[2].storage_errors.add(TopicPartition("t", 0))
        await cluster.tool.create(paths.LOG_DIR_EVENT_PREFIX, LogDirEvent(2).encode(), sequence=True)
        await cluster.tool.create(paths.LOG_DIR_EVENT_PREFIX, b"garbage", sequence=True)
        await cluster.quiet()
        assert await cluster.tool.children(paths.LOG_DIR_EVENTS) == []
        assert (await cluster.short_state("t-0"))[:2] == (1, [1])
        assert (await cluster.short_state("t-1"))[:2] == (2, [2, 1])
        assert cluster.brokers[1].metadata_of("t-0")[-1].offline_replicas == [2]
        await cluster.kill(2)
        await cluster.restart(2)
        await cluster.until(lambda: cluster.brokers[1].metadata_of("t-0")[-1].offline_replicas == [])
        assert cluster.brokers[2].metadata_of("t-0")[-1].offline_replicas == []
        assert cluster.controller.cluster.is_online(2, TopicPartition("t", 0))
        await cluster.stop()

    run(scenario())


def test_a_changed_registration_is_passed_on() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        cluster.brokers[7] = cluster.brokers[2]
        endpoints = (RegisteredEndpoint("PLAINTEXT", "elsewhere", FIRST_PORT + 7),)
        await cluster.tool.write(paths.broker(2), BrokerRegistration(endpoints).encode())
        await cluster.quiet()
        told = cluster.brokers[1].requests(ApiKey.UPDATE_METADATA)[-1]
        assert {b.id: (b.endpoints[0].host, b.endpoints[0].port) for b in told.live_brokers}[2] == (
            "elsewhere",
            FIRST_PORT + 7,
        )
        before = len(cluster.brokers[1].received)
        await cluster.tool.write(paths.broker(2), BrokerRegistration(endpoints, timestamp_ms=5).encode())
        await cluster.quiet()
        assert len(cluster.brokers[1].received) == before, "nothing that matters changed"
        await cluster.stop()

    run(scenario())


def test_blocks_of_producer_ids() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        controller, epoch = cluster.controller, cluster.brokers[2].epoch
        first = await controller.allocate_producer_ids(2, epoch)
        second = await controller.allocate_producer_ids(2, epoch)
        assert (first.first_producer_id, first.last_producer_id) == (0, 999)
        assert (second.first_producer_id, second.last_producer_id) == (1000, 1999)
        data, _ = await cluster.tool.read(paths.PRODUCER_ID_BLOCK)
        assert ProducerIdBlock.decode(data) == second
        for broker_id, broker_epoch, code in (
            (2, epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
            (9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ):
            with pytest.raises(KafkaError) as refused:
                await controller.allocate_producer_ids(broker_id, broker_epoch)
            assert refused.value.code is code
        full = b'{"version":1,"broker":2,"block_start":"9223372036854774000","block_end":"9223372036854775500"}'
        await cluster.tool.write(paths.PRODUCER_ID_BLOCK, full)
        with pytest.raises(KafkaError) as refused:
            await controller.allocate_producer_ids(2, epoch)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        await cluster.stop()

    run(scenario())


def test_one_unreadable_topic_does_not_stop_the_others() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.tool.create(paths.topic("broken"), b"{nonsense")
        await cluster.create_topic("t", [1])
        assert (await cluster.short_state("t-0"))[0] == 1
        await cluster.kill(1)
        assert cluster.controller.broker_id == 2
        await cluster.tool.write(paths.topic("broken"), b'{"version":1,"partitions":{"0":[2]}}')
        await cluster.quiet()
        assert (await cluster.short_state("broken-0"))[0] == 2
        assert await cluster.tool.read(paths.topic("broken")), "mended"
        await cluster.stop()

    run(scenario())


def test_a_topic_whose_znode_vanished_is_forgotten() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.tool.create(paths.topic("t"), b'{"version":1,"partitions":{}}')
        await cluster.quiet()
        assert "t" in cluster.controller.cluster.topics
        await cluster.tool.delete(paths.topic("t"))
        await cluster.quiet()
        assert "t" not in cluster.controller.cluster.topics
        await cluster.stop()

    run(scenario())


def test_the_trace_tells_each_transition_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.create_topic("t", [1])
        await cluster.stop()

    with caplog.at_level(logging.DEBUG, "kafkalite.state_change"):
        run(scenario())
    records = [record for record in caplog.records if record.name == "kafkalite.state_change"]
    lines = [record.getMessage() for record in records]
    assert (
        "partition=t-0 broker=- transition=NewPartition->OnlinePartition leader=1 isr=[1] leader_epoch=0 "
        "controller=1 controller_epoch=1 reason=TopicChange"
    ) in lines
    assert len([line for line in lines if "broker=1 " in line]) == 2
    assert [each.getMessage().split()[2] for each in records if each.levelno >= logging.INFO] == [
        "transition=NewPartition->OnlinePartition"
    ]


@pytest.mark.parametrize("partitions", [4, 304])
def test_the_trace_tells_of_many_changes_on_few_lines(partitions: int, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each replica of a dead broker was a quarter of the controller's work."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", *([1, 2], [2, 1]) * (partitions // 2))
        await cluster.create_topic("alone", *[[2]] * partitions)
        await cluster.until(lambda: len(cluster.brokers[1].leaders) == 2 * partitions)
        await cluster.kill(2)
        await cluster.until(lambda: set(cluster.brokers[1].leaders.values()) == {1, -1})
        await cluster.stop()

    with caplog.at_level(logging.INFO, "kafkalite.state_change"):
        run(scenario())
    records = [record for record in caplog.records if record.name == "kafkalite.state_change"]
    lines = [record.getMessage() for record in records if "reason=BrokerChange" in record.getMessage()]
    told = Counter[str]()
    for line in lines:
        key, _, names = line.partition(" ")[0].partition("=")
        assert key == ("partitions" if "," in names else "partition")
        told.update(f"{name} {line.split()[2]}" for name in names.split(","))
    replica, election = "transition=OnlineReplica->OfflineReplica", "transition=OfflinePartition->OnlinePartition"
    assert told == Counter(
        [f"{topic}-{index} {replica}" for topic in ("t", "alone") for index in range(partitions)]
        + [f"t-{index} {election}" for index in range(1, partitions, 2)]
        + [f"alone-{index} {election}" for index in range(partitions)]
    )
    assert any("refused='Failed to elect leader under strategy" in line for line in lines)
    assert len(lines) == told.total() if partitions < 100 else len(lines) < told.total() / 20

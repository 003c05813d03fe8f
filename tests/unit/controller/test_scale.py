"""Work grows with what changed, not with what there is: requests are counted, not seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite import portions
from kafkalite.controller import steps
from kafkalite.controller.channel_manager import ConnectionChannel
from kafkalite.controller.machines import request_batch
from kafkalite.controller.requests import NewTopic, TopicReference
from kafkalite.controller.term import ControllerTerm
from kafkalite.net.connection import Connection
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import Endpoint
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.controller.fake_cluster import FakeBroker, FakeCluster
from zk.store import Operation, Result

PARTITIONS = 2000


async def _big_cluster() -> FakeCluster:
    cluster = await FakeCluster().start(1, 2, 3, 4)
    await cluster.controller.create_topics([NewTopic("big", PARTITIONS, 3)])
    await cluster.until(lambda: len(cluster.brokers[4].leaders) == PARTITIONS)
    return cluster


class _Counter:
    """Counts the requests of a member's ZooKeeper session."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self.requests = 0
        store: Any = cluster.members[broker_id].store
        carry_out = store._request

        def count(path: str, operation: Any) -> Any:
            self.requests += 1
            return carry_out(path, operation)

        store._request = count


def test_two_thousand_partitions_are_created_with_few_requests() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        assert sum(len(cluster.brokers[b].told(f"big-{PARTITIONS - 1}")) for b in (1, 2, 3, 4)) == 3
        assert max(len(broker.received) for broker in cluster.brokers.values()) < 20
        counter = _Counter(cluster, 1)
        await cluster.create_topic("small", [2, 3])
        assert counter.requests < 15, "a small topic beside a big one costs what a small one costs"
        await cluster.stop()

    run(scenario())


def test_many_topics_are_created_and_deleted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop does much of it."""
    monkeypatch.setattr(steps, "_PIECE", 25)
    monkeypatch.setattr(portions, "PORTION_UNITS", 25)
    names = [f"topic-{number}" for number in range(150)]

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        controller, broker = cluster.controller, cluster.brokers[2]
        await cluster.create_topic("first", [1, 2])  # codecs are compiled at first use
        await cluster.delete_topic("first")
        with measured_turns() as creating:
            await controller.create_topics([NewTopic(name, 2, 1) for name in names])
            await cluster.until(lambda: len(broker.leaders) == 2 * len(names))
        with measured_turns() as deleting:
            await controller.delete_topics([TopicReference(name) for name in names])
            await cluster.until(lambda: controller.cluster is None or not controller.cluster.topics)
        for turns in (creating, deleting):
            assert turns.longest < turns.calls / 30, turns
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize(("full", "sizes"), [(5_000, [25, 50, 100, 200, 400, 25]), (100, [25, 50, *[100] * 7, 25])])
def test_each_batch_of_a_change_is_larger_than_the_one_before_until_one_is_full(
    monkeypatch: pytest.MonkeyPatch, full: int, sizes: list[int]
) -> None:
    """One LeaderAndIsr and one UpdateMetadata for a broker and batch: a round trip for each piece took longer than the work."""
    monkeypatch.setattr(steps, "_PIECE", 25)
    monkeypatch.setattr(request_batch, "_FULL", full)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("big", *[[1, 2]] * sum(sizes))
        broker = cluster.brokers[2]
        await cluster.until(lambda: len(broker.leaders) == sum(sizes))
        assert _sizes(broker, ApiKey.LEADER_AND_ISR) == _sizes(broker, ApiKey.UPDATE_METADATA) == sizes
        await cluster.kill(1)
        await cluster.until(lambda: set(broker.leaders.values()) == {2}, "leaders")
        await cluster.quiet()
        assert _sizes(broker, ApiKey.UPDATE_METADATA)[len(sizes) :] == sizes
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("dead", [1, 2])
def test_what_a_dead_broker_leaves_is_written_in_few_rounds_and_sent_once(
    monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    """Each 300 partitions waited for ZooKeeper, and those with a new leader were sent again when the dead replica had left the ISR."""
    monkeypatch.setattr(steps, "_PIECE", 10)
    writes: list[int] = []
    perform = ControllerTerm._write

    async def count_writes(term: ControllerTerm, operations: Sequence[Operation]) -> list[Result]:
        writes.append(len(operations))
        return await perform(term, operations)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("big", *([1, 2, 3], [2, 3, 1], [3, 1, 2]) * 40)
        await cluster.until(lambda: len(cluster.brokers[3].leaders) == 120)
        cluster.brokers[3].received.clear()
        monkeypatch.setattr(ControllerTerm, "_write", count_writes)
        await cluster.kill(dead)
        await cluster.quiet()
        sizes = [each for each in writes if each > 1]
        assert sum(sizes) == 120, "each state is written once"
        assert len(sizes) <= 7, "as many rounds as there are batches, each larger than the one before"
        assert all(len(cluster.brokers[3].told(f"big-{index}")) == 1 for index in range(120))
        assert all(len(cluster.brokers[3].metadata_of(f"big-{index}")) == 1 for index in range(120))
        await cluster.stop()

    run(scenario())


def _sizes(broker: FakeBroker, key: ApiKey) -> list[int]:
    """Numbers of partitions in requests, without those that name none."""
    counts = (sum(len(topic.partition_states) for topic in message.topic_states) for message in broker.requests(key))
    return [count for count in counts if count]


def test_a_broker_that_starts_is_told_everything_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request, because a broker that knows of half of the topics would deny the others; no turn of the loop makes much of it."""
    monkeypatch.setattr(steps, "_PIECE", 25)
    monkeypatch.setattr(portions, "PORTION_UNITS", 25)
    names = [f"topic-{number}" for number in range(300)]

    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.controller.create_topics([NewTopic(name, 4, 1) for name in names])
        await cluster.until(lambda: len(cluster.brokers[1].leaders) == 4 * len(names))
        with measured_turns() as turns:
            await cluster.start(2)
            await cluster.until(lambda: bool(cluster.brokers[2].received))
        told = [len(message.topic_states) for message in cluster.brokers[2].received]
        assert told == [len(names)]
        assert turns.longest < turns.calls / 12, turns
        await cluster.stop()

    run(scenario())


class _SentTo:
    """A connection that keeps what it is given to send."""

    closed = False

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def send_encoded(self, api_key: int, version: int, body: Any) -> Any:
        self.bodies.append(b"".join(body))

    async def answer_to(self, message: Any, future: Any, timeout_s: float) -> str:
        return "answer"


def test_a_long_request_is_encoded_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    m = messages.update_metadata_request
    states = [m.PartitionState(partition_index=index, isr=[1, 2], replicas=[1, 2]) for index in range(100)]
    request = m.UpdateMetadataRequest(
        topic_states=[m.TopicState(topic_name=f"t{n}", partition_states=states) for n in range(100)]
    )
    connection = _SentTo()

    async def open_(host: str, port: int, **options: Any) -> _SentTo:
        return connection

    async def scenario() -> None:
        channel = ConnectionChannel(Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"), "me", 1.0)
        monkeypatch.setattr(Connection, "open", open_)
        assert await channel.request(request, 8) == "answer"  # writers are compiled at first use
        with measured_turns() as turns:
            await channel.request(request, 8)
        assert turns.longest < turns.calls / 4, turns

    run(scenario())
    assert connection.bodies == [b"".join(codec.encode_request(request, 8))] * 2


def test_failover_reads_and_writes_partitions_in_groups() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        counters = [_Counter(cluster, broker) for broker in (2, 3, 4)]
        await cluster.members.pop(1).die()
        await cluster.until(lambda: any(m.controller.is_active for m in cluster.members.values()), "failover")
        await cluster.until(lambda: 1 not in cluster.brokers[cluster.controller.broker_id].leaders.values(), "leaders")
        await cluster.quiet()
        assert sum(counter.requests for counter in counters) < PARTITIONS / 20
        assert cluster.controller.statistics()["offline_partitions_count"] == 0
        await cluster.stop()

    run(scenario())


def test_the_death_of_a_broker_costs_grouped_writes_only() -> None:
    async def scenario() -> None:
        cluster = await _big_cluster()
        counter = _Counter(cluster, 1)
        await cluster.kill(4)
        await cluster.until(lambda: 4 not in cluster.brokers[1].leaders.values(), "leaders")
        await cluster.quiet()
        assert counter.requests < PARTITIONS / 20
        await cluster.stop()

    run(scenario())


def test_a_topic_of_many_partitions_was_taken_in_within_one_turn() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        broker = cluster.brokers[1]
        with measured_turns() as turns:
            await cluster.controller.create_topics([NewTopic("big", PARTITIONS, 1)])
            await cluster.until(lambda: len(broker.leaders) == PARTITIONS)
        assert turns.longest < turns.calls / 25, turns
        await cluster.stop()

    run(scenario())

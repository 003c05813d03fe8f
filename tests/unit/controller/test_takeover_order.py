"""What a new controller of a large cluster reads and elects first: the partitions that the dead brokers led."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.controller import failover, known_metadata
from kafkalite.controller.machines.leadership_znodes import read_leaderships
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeBroker, FakeCluster

LED = TopicPartition("led", 0)
OTHERS = {TopicPartition("led", 1), *(TopicPartition("other", index) for index in range(3))}
Order = list[tuple[str, set[TopicPartition]]]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Iterator[Order]:
    """What failovers read and settle, in their order, in a cluster that counts as large."""
    found: Order = []
    read, settle = read_leaderships, failover._settle_partitions

    def note_read(partitions: Sequence[TopicPartition]) -> Any:
        found.append(("read", set(partitions)))
        return read(partitions)

    def note_settled(cluster: Any, partitions: Sequence[TopicPartition], batch: Any) -> Any:
        found.append(("settled", set(partitions)))
        return settle(cluster, partitions, batch)

    monkeypatch.setattr(known_metadata, "DIFFERENCES_FROM", 1)
    monkeypatch.setattr(failover, "read_leaderships", note_read)
    monkeypatch.setattr(failover, "_settle_partitions", note_settled)
    yield found


async def started() -> FakeCluster:
    """Four brokers; 1 is the controller and leads the first partition of "led" only."""
    cluster = await FakeCluster(proves_metadata=True).start(1, 2, 3, 4)
    await cluster.create_topic("led", [1, 2], [2, 1])
    await cluster.create_topic("other", [2, 3, 4], [3, 4, 2], [4, 2, 3])
    return cluster


def leaders_told(broker: FakeBroker) -> dict[str, list[int]]:
    assert broker.metadata is not None
    return {
        name: [state.leader for state in topic.partitions.values()] for name, topic in broker.metadata.topics.items()
    }


def test_what_the_dead_led_is_read_and_elected_first(order: Order) -> None:
    async def scenario() -> None:
        cluster = await started()
        order.clear()
        await cluster.kill(1)
        assert order[:3] == [("read", {LED}), ("settled", {LED}), ("read", OTHERS)]
        settled = [each for what, some in order if what == "settled" for each in some]
        assert sorted(settled) == sorted({LED, *OTHERS}), "each once"
        assert leaders_told(cluster.brokers[3]) == {"led": [2, 2], "other": [2, 3, 4]}
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("believed", [2, 4])
def test_what_is_not_known_to_be_led_by_the_dead_is_elected_nevertheless(order: Order, believed: int) -> None:
    """The next controller's broker has missed who leads."""

    async def scenario() -> None:
        cluster = await started()
        metadata = cluster.brokers[2].metadata
        assert metadata is not None
        states = metadata.topics["led"].partitions
        metadata.topics["led"].partitions = states | {0: replace(states[0], leader=believed)}
        order.clear()
        await cluster.kill(1)
        assert order[0] == ("read", {LED, *OTHERS})
        assert leaders_told(cluster.brokers[3]) == {"led": [2, 2], "other": [2, 3, 4]}
        await cluster.stop()

    run(scenario())


def test_what_somebody_else_leads_by_now_keeps_its_leader(order: Order) -> None:
    async def scenario() -> None:
        cluster = await started()
        metadata = cluster.brokers[2].metadata
        assert metadata is not None
        states = metadata.topics["other"].partitions
        metadata.topics["other"].partitions = states | {1: replace(states[1], leader=1)}
        order.clear()
        await cluster.kill(1)
        assert order[0] == ("read", {LED, TopicPartition("other", 1)})
        assert all(broker.metadata is not None for broker in cluster.brokers.values())
        assert leaders_told(cluster.brokers[4]) == {"led": [2, 2], "other": [2, 3, 4]}
        epochs = {
            (each.topic_name, state.partition_index): state.leader_epoch
            for request in cluster.brokers[4].requests(ApiKey.LEADER_AND_ISR)
            for each in request.topic_states
            for state in each.partition_states
        }
        assert epochs["other", 1] == 0, "not elected again"
        await cluster.stop()

    run(scenario())

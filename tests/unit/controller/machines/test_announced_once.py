"""Brokers are told of a partition when it is decided who leads it: no leader epoch that the same event ends is told to anybody.

A client that asks in between keeps it, and is refused with FENCED_LEADER_EPOCH until it refreshes its metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from tests.unit.controller.fake_cluster import FakeBroker, FakeCluster

LED = ([1], [1, 2], [2, 1], [3, 1, 2], [2, 3], [3])
"""Replicas by partition: alone, led by who returns, followed by it, without it."""


def epochs_told(brokers: Iterable[FakeBroker]) -> dict[str, set[int]]:
    """The leader epochs in which brokers were told that somebody leads, by partition."""
    told: defaultdict[str, set[int]] = defaultdict(set)
    for broker in brokers:
        for key in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA):
            for message in broker.requests(key):
                for topic in message.topic_states:
                    for state in topic.partition_states:
                        if state.leader >= 0:
                            told[f"{topic.topic_name}-{state.partition_index}"].add(state.leader_epoch)
    return told


async def expect_final_epochs(cluster: FakeCluster, partitions: Iterable[str]) -> None:
    """Each partition was told of in the epoch that it is in, and in no other."""
    told = epochs_told(cluster.brokers.values())
    for partition in partitions:
        leader, _, epoch = await cluster.short_state(partition)
        assert told[partition] == ({epoch} if leader >= 0 else set()), partition


def test_a_broker_that_was_killed_alone_announced_its_leadership_of_before() -> None:
    """FENCED_LEADER_EPOCH for who asked between the announcement and the election."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        for number in range(14):
            await cluster.create_topic(f"t{number}", [1], [1])
        await cluster.kill(1)
        await cluster.start(1)
        partitions = [f"t{number}-{index}" for number in range(14) for index in (0, 1)]
        assert [await cluster.short_state(each) for each in partitions] == [(1, [1], 1)] * 28
        assert all(cluster.brokers[1].told(each) == [(1, 1, [1], False)] for each in partitions)
        await expect_final_epochs(cluster, partitions)
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("returning", [[1], [2], [1, 2], [2, 1], [3, 2, 1]], ids=str)
def test_brokers_that_all_died_and_return_one_after_the_other(returning: list[int]) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *LED)
        for broker_id in (3, 1, 2):
            await cluster.kill(broker_id)
        cluster.brokers.clear()
        for broker_id in returning:
            for broker in cluster.brokers.values():
                broker.received.clear()
            await cluster.start(broker_id)
            await expect_final_epochs(
                cluster, [each for each in names() if epochs_told(cluster.brokers.values())[each]]
            )
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("dead", [[1], [2, 1], [3, 1], [2, 3, 1]], ids=str)
def test_who_governs_next_announces_what_it_decided(dead: list[int]) -> None:
    """Broker 1 governs, and dies with the others: nobody sees them die but its successor."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", *LED)
        for broker in cluster.brokers.values():
            broker.received.clear()
        members = [cluster.members.pop(broker_id) for broker_id in dead]
        for member in members:
            del cluster.brokers[member.broker_id]
            member.store.expire_session()
        for member in members:
            await member.controller.stop()
            await member.store.close()
        await cluster.quiet()
        assert cluster.controller.is_active
        await expect_final_epochs(cluster, names())
        await cluster.stop()

    run(scenario())


def test_a_broker_that_returns_to_others_hears_of_elections_only() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *LED)
        await cluster.kill(3)
        for broker in cluster.brokers.values():
            broker.received.clear()
        await cluster.start(3)
        assert await cluster.short_state("t-5") == (3, [3], 2)
        states = [state for broker in cluster.brokers.values() for state in broker.metadata_of("t-5")]
        assert {(state.leader, state.leader_epoch) for state in states} == {(3, 2)}
        await expect_final_epochs(cluster, [each for each in names() if epochs_told(cluster.brokers.values())[each]])
        await cluster.stop()

    run(scenario())


def test_two_replicas_that_leave_at_once_end_one_epoch_after_the_other_unseen() -> None:
    """However many replicas are in between: 300 make a piece of work."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *[[1, 2, 3]] * 200)
        for broker in cluster.brokers.values():
            broker.received.clear()
        members = [cluster.members.pop(broker_id) for broker_id in (2, 3)]
        for member in members:
            member.store.expire_session()
        for member in members:
            await member.controller.stop()
            await member.store.close()
        await cluster.quiet(4000)
        assert await cluster.short_state("t-0") == (1, [1], 2)
        await expect_final_epochs(cluster, [f"t-{index}" for index in range(200)])
        await cluster.stop()

    run(scenario())


def names() -> list[str]:
    return [f"t-{index}" for index in range(len(LED))]

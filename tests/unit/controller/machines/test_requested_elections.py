"""Elections on request: preferred by API, znode and clock, unclean by API and by setting; controlled shutdown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.controller.requests import AlreadyMarkedForDeletion, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.znodes import ConfigEntity, PartitionName, PreferredElection

PREFERRED, UNCLEAN = False, True


async def _elect(cluster: FakeCluster, unclean: bool, *partitions: str) -> dict[str, int]:
    wanted = tuple(TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in partitions)
    results = await cluster.controller.elect_leaders(wanted or None, unclean=unclean)
    await cluster.quiet()
    return {str(partition): code_of(problem) for partition, problem in results.items()}


async def _moved_away_from_one(**config: Any) -> FakeCluster:
    """Partition t-0 prefers broker 1, which was away and is back in sync; broker 2 leads."""
    cluster = await FakeCluster(**config).start(3, 1, 2)
    await cluster.create_topic("t", [1, 2])
    await cluster.kill(1)
    await cluster.restart(1)
    await cluster.alter_partition("t-0", 2, [2, 1])
    return cluster


def test_preferred_leader_by_api() -> None:
    async def scenario() -> None:
        cluster = await _moved_away_from_one()
        assert await _elect(cluster, PREFERRED, "t-0") == {"t-0": 0}
        assert await cluster.short_state("t-0") == (1, [2, 1], 2)
        assert cluster.brokers[2].told("t-0")[-1] == (1, 2, [2, 1], False)
        assert await _elect(cluster, PREFERRED, "t-0") == {"t-0": ErrorCode.ELECTION_NOT_NEEDED}
        assert await _elect(cluster, PREFERRED, "ghost-1") == {"ghost-1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await _elect(cluster, PREFERRED) == {}, "of all partitions those without need are left out"
        await cluster.kill(1)
        assert await _elect(cluster, PREFERRED, "t-0") == {"t-0": ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        await cluster.stop()

    run(scenario())


def test_preferred_leader_by_znode_twice() -> None:
    async def scenario() -> None:
        cluster = await _moved_away_from_one()
        wish = PreferredElection((PartitionName("t", 0), PartitionName("ghost", 0))).encode()
        await cluster.tool.create(paths.PREFERRED_REPLICA_ELECTION, wish)
        await cluster.quiet()
        assert (await cluster.state("t-0")).leader == 1
        assert not await cluster.has(paths.PREFERRED_REPLICA_ELECTION)
        await cluster.tool.create(paths.PREFERRED_REPLICA_ELECTION, b"garbage")
        await cluster.quiet()
        assert not await cluster.has(paths.PREFERRED_REPLICA_ELECTION)
        await cluster.stop()

    run(scenario())


def test_preferred_leaders_by_the_clock() -> None:
    async def scenario() -> None:
        cluster = await _moved_away_from_one(leader_imbalance_check_interval_seconds=30)
        await asyncio.sleep(36)
        await cluster.quiet()
        assert (await cluster.state("t-0")).leader == 1
        await cluster.stop()

    run(scenario())


def test_preferred_leaders_stay_away_when_nobody_rebalances() -> None:
    async def scenario() -> None:
        cluster = await _moved_away_from_one(auto_leader_rebalance_enable=False)
        await asyncio.sleep(1000)
        await cluster.quiet()
        assert (await cluster.state("t-0")).leader == 2
        await cluster.stop()

    run(scenario())


async def _without_clean_leader(**config: Any) -> FakeCluster:
    """Only broker 2 was in sync, and it is dead; broker 1 lives."""
    cluster = await FakeCluster(**config).start(3, 1, 2)
    await cluster.create_topic("t", [2, 1])
    await cluster.alter_partition("t-0", 2, [2])
    await cluster.kill(2)
    return cluster


def test_an_election_of_all_leaves_out_topics_whose_deletion_waits_for_a_dead_replica() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        for topic in ("t", "deleted"):
            await cluster.create_topic(topic, [2, 1])
        await cluster.kill(2)
        await cluster.controller.delete_topics([TopicReference("deleted")])
        await cluster.quiet()
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await _elect(cluster, PREFERRED) == {"t-0": unavailable}
        assert await _elect(cluster, PREFERRED, "deleted-0") == {"deleted-0": ErrorCode.INVALID_TOPIC_EXCEPTION}
        ((name, problem),) = await cluster.controller.delete_topics([TopicReference("deleted")])
        assert isinstance(problem, AlreadyMarkedForDeletion) and name == "deleted"
        await cluster.stop()

    run(scenario())


def test_no_unclean_leader_unless_asked_for() -> None:
    async def scenario() -> None:
        cluster = await _without_clean_leader()
        assert (await cluster.short_state("t-0"))[:2] == (-1, [2])
        assert cluster.controller.statistics()["offline_partitions_count"] == 1
        assert await _elect(cluster, UNCLEAN, "t-0") == {"t-0": 0}
        state = await cluster.state("t-0")
        assert (state.leader, state.isr, state.recovering) == (1, (1,), True)
        assert await _elect(cluster, UNCLEAN, "t-0") == {"t-0": ErrorCode.ELECTION_NOT_NEEDED}
        await cluster.stop()

    run(scenario())


def test_unclean_election_by_the_brokers_setting() -> None:
    async def scenario() -> None:
        cluster = await _without_clean_leader(unclean_leader_election_enable=True)
        assert (await cluster.short_state("t-0"))[:2] == (1, [1])
        await cluster.stop()

    run(scenario())


def test_unclean_election_when_the_topics_setting_changes() -> None:
    async def scenario() -> None:
        cluster = await _without_clean_leader()
        overrides = {"unclean.leader.election.enable": "true"}
        await cluster.tool.write(paths.topic_config("t"), ConfigEntity(overrides).encode())
        cluster.controller.on_topic_config_change("t", overrides)
        await cluster.quiet()
        assert (await cluster.short_state("t-0"))[:2] == (1, [1])
        await cluster.stop()

    run(scenario())


def test_unclean_election_when_the_clusters_setting_changes() -> None:
    async def scenario() -> None:
        cluster = await _without_clean_leader()
        cluster.config.replace(FakeCluster(unclean_leader_election_enable=True).config.current)
        await cluster.quiet()
        assert (await cluster.short_state("t-0"))[:2] == (1, [1])
        await cluster.stop()

    run(scenario())


def test_a_broker_hands_over_before_it_stops() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(3, 1, 2)
        await cluster.create_topic("led", [1, 2])
        await cluster.create_topic("followed", [2, 1])
        await cluster.create_topic("single", [1])
        assert await cluster.controller.controlled_shutdown(1, cluster.brokers[1].epoch) == []
        await cluster.quiet()
        assert await cluster.short_state("led-0") == (2, [2], 1)
        assert await cluster.short_state("followed-0") == (2, [2], 1)
        assert await cluster.short_state("single-0") == (1, [1], 0)
        assert cluster.brokers[1].stopped("followed-0")[0] == (False, 0)
        assert 1 in cluster.brokers[2].known_brokers, "it is told and known until it is gone"
        await cluster.kill(1)
        assert await cluster.short_state("led-0") == (2, [2], 1), "nothing more to do for it"
        await cluster.restart(1)
        assert cluster.controller.cluster.live_brokers == [1, 2, 3]
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("rebalances", [True, False])
def test_leadership_returns_to_a_broker_that_stopped_in_good_order_when_it_is_in_sync_again(rebalances: bool) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(auto_leader_rebalance_enable=rebalances).start(3, 1, 2)
        await cluster.create_topic("preferred", [1, 2])
        await cluster.create_topic("foreign", [2, 1])
        await cluster.create_topic("deleted", [1, 2])
        await cluster.controller.controlled_shutdown(1, cluster.brokers[1].epoch)
        await cluster.kill(1)
        await cluster.restart(1)
        assert await cluster.short_state("preferred-0") == (2, [2], 1)
        await cluster.alter_partition("preferred-0", 2, [2, 1])
        await cluster.alter_partition("foreign-0", 2, [2, 1])
        await cluster.quiet()
        assert await cluster.short_state("preferred-0") == ((1, [2, 1], 2) if rebalances else (2, [2, 1], 1))
        assert await cluster.short_state("foreign-0") == (2, [2, 1], 1)
        assert cluster.controller.cluster.handed_over == {TopicPartition("deleted", 0): 1}
        await cluster.stop()

    run(scenario())


def test_leadership_does_not_return_after_a_death_that_was_not_planned() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(3, 1, 2)
        await cluster.create_topic("t", [1, 2])
        await cluster.kill(1)
        await cluster.restart(1)
        await cluster.alter_partition("t-0", 2, [2, 1])
        await cluster.quiet()
        assert await cluster.short_state("t-0") == (2, [2, 1], 1)
        await cluster.stop()

    run(scenario())


def test_a_broker_that_nobody_can_replace_keeps_its_partitions() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(3, 1, 2)
        await cluster.create_topic("t", [1, 2])
        await cluster.alter_partition("t-0", 1, [1])
        assert await cluster.controller.controlled_shutdown(1, -1) == [TopicPartition("t", 0)]
        assert await cluster.short_state("t-0") == (1, [1], 0)
        await cluster.stop()

    run(scenario())


def test_a_broker_that_asks_again_before_it_is_answered_is_not_handed_over_twice() -> None:
    """With a hundred thousand partitions each time took half a minute, and the broker asked every five seconds, long before it was gone."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(3, 1, 2)
        await cluster.create_topic("led", [1, 2])
        await cluster.create_topic("followed", [2, 1])
        asked = [cluster.controller.controlled_shutdown(1, cluster.brokers[1].epoch) for _ in range(3)]
        assert await asyncio.gather(*asked) == [[], [], []]
        await cluster.quiet()
        assert len(cluster.brokers[1].stopped("followed-0")) == 2, "as for one"
        assert await cluster.controller.controlled_shutdown(1, cluster.brokers[1].epoch) == [], "it may ask again"
        await cluster.stop()

    run(scenario())


def test_controlled_shutdown_is_refused() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        for broker_id, epoch, code in (
            (2, cluster.brokers[2].epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
            (9, 5, ErrorCode.BROKER_NOT_AVAILABLE),
        ):
            with pytest.raises(KafkaError) as refused:
                await cluster.controller.controlled_shutdown(broker_id, epoch)
            assert refused.value.code is code
        await cluster.stop()

    run(scenario())

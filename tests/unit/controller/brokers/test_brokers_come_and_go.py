"""Topics get leaders; brokers die, return, bounce: the timelines of a ZooKeeper-mode cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

import pytest

from kafkalite.controller import steps
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FIRST_PORT, FakeCluster, code_of
from zk import paths
from zk.memory.memory_store import MemoryStore
from zk.store import Stat, Watcher
from zk.znodes import BrokerRegistration, RegisteredEndpoint

ELSEWHERE: Final = RegisteredEndpoint("PLAINTEXT", "elsewhere", FIRST_PORT + 2)


def test_a_topic_written_by_an_old_tool_gets_an_id_leaders_and_is_announced() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1, 2])
        assert (await cluster.topic("t")).topic_id is not None
        assert await cluster.short_state("t-0") == (1, [1, 2], 0)
        assert cluster.brokers[1].told("t-0") == [(1, 0, [1, 2], True)]
        assert cluster.brokers[2].told("t-0") == [(1, 0, [1, 2], True)]
        assert cluster.brokers[3].told("t-0") == []
        for broker in cluster.brokers.values():
            assert [state.leader for state in broker.metadata_of("t-0")] == [1]
        await cluster.stop()

    run(scenario())


def test_death_and_return_of_a_leader() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(3, 1, 2)
        await cluster.create_topic("t", [1, 2])
        await cluster.kill(1)
        assert await cluster.short_state("t-0") == (2, [2], 1)
        assert cluster.brokers[2].told("t-0")[1] == (2, 1, [2], False)
        assert cluster.brokers[2].metadata_of("t-0")[-1].offline_replicas == [1]
        assert cluster.brokers[3].known_brokers == {2, 3}
        await cluster.restart(1)
        assert cluster.brokers[1].told("t-0") == [(2, 1, [2], False)]
        first = cluster.brokers[1].received[0]
        assert first.API.key == ApiKey.UPDATE_METADATA, "a broker knows the leaders before it is to follow them"
        assert code_of(await cluster.alter_partition("t-0", 2, [2, 1])) == ErrorCode.NONE
        assert await cluster.short_state("t-0") == (2, [2, 1], 1)
        await cluster.stop()

    run(scenario())


def test_death_of_the_controller() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1, 2, 3], [2, 3, 1])
        assert (cluster.controller.broker_id, cluster.controller.epoch) == (1, 1)
        await cluster.kill(1)
        assert cluster.controller.broker_id in (2, 3)
        assert cluster.controller.epoch == 2
        assert await cluster.short_state("t-0") == (2, [2, 3], 1)
        assert await cluster.short_state("t-1") == (2, [2, 3], 1)
        data, stat = await cluster.tool.read(paths.CONTROLLER_EPOCH)
        assert (data, stat.version) == (b"2", 2)
        await cluster.stop()

    run(scenario())


def test_a_new_controller_elects_leaders_before_it_shrinks_isrs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the dead broker out of every ISR first, and wrote the states of partitions without a leader twice."""
    monkeypatch.setattr(steps, "_PIECE", 3)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", *([2, 3, 1], [1, 2, 3], [3, 2, 1]) * 4)
        await cluster.kill(1)
        for index in range(12):
            state, version = await cluster.state_and_version(f"t-{index}")
            assert (sorted(state.isr), state.leader_epoch, version) == ([2, 3], 1, 1)
        for broker in (cluster.brokers[2], cluster.brokers[3]):
            requests = [each for each in broker.requests(ApiKey.LEADER_AND_ISR) if each.controller_epoch == 2]
            sent = [[state.partition_index for state in each.topic_states[0].partition_states] for each in requests]
            assert sent == [[1, 4, 7], [10], [0, 2, 3, 5, 6, 8, 9, 11]]
        await cluster.stop()

    run(scenario())


def test_brokers_that_stop_and_return_in_short_time_are_published_together() -> None:
    """A restarted broker cost every other one two UpdateMetadata when it left, two when it came, and one for each of its ISRs."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [1, 2, 3], [1, 3, 4])
        for broker in (2, 3, 4):
            await cluster.controller.controlled_shutdown(broker, cluster.brokers[broker].epoch)
        await asyncio.sleep(1.0)
        before = len(cluster.brokers[1].requests(ApiKey.UPDATE_METADATA))

        def count_requests() -> int:
            return len(cluster.brokers[1].requests(ApiKey.UPDATE_METADATA)) - before

        await cluster.kill(2)
        assert (count_requests(), cluster.brokers[1].known_brokers) == (1, {1, 3, 4}), "the first one at once"
        for broker in (3, 4):
            await cluster.kill(broker)
        assert count_requests() == 1
        await cluster.start(2, 3, 4)
        assert count_requests() == 4
        assert cluster.brokers[1].known_brokers == {1, 2, 3, 4}, "at once: leaders take in sync whom they know"
        assert cluster.brokers[4].metadata_of("t-1")[0].offline_replicas == [], "who comes is sent everything at once"
        await asyncio.sleep(1.0)
        assert count_requests() == 5
        for partition in ("t-0", "t-1"):
            assert cluster.brokers[1].metadata_of(partition)[-1].offline_replicas == []
        await cluster.stop()

    run(scenario())


def test_a_controller_reads_only_the_registrations_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read and decoded a hundred registrations, each in a request of its own, when one broker came or went."""
    reads: list[str] = []
    read = MemoryStore.read

    def count(store: MemoryStore, path: str, watcher: Watcher | None = None) -> Awaitable[tuple[bytes, Stat]]:
        if watcher is not None and path.startswith(paths.BROKER_IDS):
            reads.append(path)
        return read(store, path, watcher)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        monkeypatch.setattr(MemoryStore, "read", count)
        await cluster.kill(3)
        assert reads == []
        await cluster.start(5)
        assert reads == [paths.broker(5)]
        before = cluster.brokers[1].requests(ApiKey.UPDATE_METADATA)[-1]
        await cluster.tool.write(paths.broker(2), BrokerRegistration((ELSEWHERE,)).encode())
        await cluster.quiet()
        assert reads == [paths.broker(5), paths.broker(2)], "its watch was still set"
        told = cluster.brokers[1].requests(ApiKey.UPDATE_METADATA)[-1]
        assert told is not before
        assert {each.id: each.endpoints[0].host for each in told.live_brokers}[2] == ELSEWHERE.host
        await cluster.stop()

    run(scenario())


def test_brokers_that_stop_together_hand_over_once() -> None:
    """Leaderships went from one broker that was about to stop to the next one, each time with metadata for every broker."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3, 4)
        await cluster.create_topic("t", [2, 3, 1], [3, 2, 1])
        await asyncio.sleep(1.0)
        before = len(cluster.brokers[1].requests(ApiKey.UPDATE_METADATA))
        epochs = {4: cluster.brokers[4].epoch, 2: cluster.brokers[2].epoch, 3: cluster.brokers[3].epoch}
        stops = [cluster.controller.controlled_shutdown(*each) for each in epochs.items()]
        stale = cluster.controller.controlled_shutdown(3, epochs[3] - 1)
        *remaining, refused = await asyncio.gather(*stops, stale, return_exceptions=True)
        assert remaining == [[], [], []]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.STALE_BROKER_EPOCH
        assert await cluster.short_state("t-0") == (1, [1], 1)
        assert await cluster.short_state("t-1") == (1, [1], 1)
        await cluster.quiet()
        assert len(cluster.brokers[1].requests(ApiKey.UPDATE_METADATA)) - before == 2
        await cluster.stop()

    run(scenario())


def test_the_last_of_brokers_that_stop_together_keeps_what_only_they_could_lead() -> None:
    """Each kept its own partitions in an ISR of one, and all waited until their retries were over."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        await asyncio.sleep(1.0)
        epochs = {number: cluster.brokers[number].epoch for number in (1, 2, 3)}
        stops = [cluster.controller.controlled_shutdown(*each) for each in epochs.items()]
        partitions = [TopicPartition("t", index) for index in range(3)]
        assert await asyncio.gather(*stops) == [[], [], partitions]
        await cluster.stop()

    run(scenario())

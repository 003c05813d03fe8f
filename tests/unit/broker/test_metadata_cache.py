"""What UpdateMetadata requests leave behind: brokers replaced, partitions merged, waiters woken."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.controller.control_requests import (
    LiveBroker,
    PartitionMetadata,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import NO_TOPIC_ID, Endpoint, TopicPartition

ID = bytes(range(16))


def update(*topics: UpdateMetadataTopic, brokers: tuple[int, ...] = (1,), controller_id: int = 1) -> UpdateMetadata:
    live = [LiveBroker(each, {"INSIDE": Endpoint("INSIDE", f"h{each}", 9092)}, "r") for each in brokers]
    return UpdateMetadata(controller_id, 3, -1, topics, live)


def topic(name: str, leaders: dict[int, int], topic_id: bytes = NO_TOPIC_ID) -> UpdateMetadataTopic:
    states = {index: PartitionMetadata(leader, 4, [1], [1, 2], [], 6, 3) for index, leader in leaders.items()}
    return UpdateMetadataTopic(name, topic_id, states)


def deletion(name: str, *partitions: int) -> UpdateMetadataTopic:
    return UpdateMetadataTopic(name, ID, {}, topic(name, dict.fromkeys(partitions, -2)).partitions)


def cache_of(*requests: UpdateMetadata) -> MetadataCache:
    cache = MetadataCache()
    for request in requests:
        cache.apply(request)
    return cache


def test_brokers_and_controller_are_replaced_even_without_partitions() -> None:
    cache = cache_of(update(brokers=(1, 2)), update(brokers=(2, 3), controller_id=2))
    assert cache.brokers.keys() == {2, 3}
    assert (cache.controller_id, cache.controller_epoch, cache.version) == (2, 3, 2)
    assert cache.is_alive(3)
    assert not cache.is_alive(1)
    assert cache.endpoint(2, "INSIDE") == Endpoint("INSIDE", "h2", 9092, "PLAINTEXT")
    assert cache.endpoint(2, "OUTSIDE") is None
    assert cache.endpoint(1, "INSIDE") is None
    assert cache.brokers[2].rack == "r"


def test_brokers_that_are_named_again_are_not_read_again() -> None:
    """A hundred brokers made a dict of a hundred brokers for each partition whose state changed."""
    first = update(brokers=(1, 2))
    cache = cache_of(first)
    brokers = cache.brokers
    cache.apply(replace(update(topic("t", {0: 1})), brokers=first.brokers))
    assert cache.brokers is brokers
    cache.apply(update(brokers=(2,)))
    assert cache.brokers.keys() == {2}


def test_partitions_are_merged() -> None:
    cache = cache_of(update(topic("t", {0: 1, 1: 1})), update(topic("t", {1: 2}), topic("u", {0: -1})))
    leaders = {(name, index): p.leader for name, t in cache.topics.items() for index, p in t.partitions.items()}
    assert leaders == {("t", 0): 1, ("t", 1): 2, ("u", 0): -1}
    known = cache.partition(TopicPartition("t", 1))
    assert known is not None
    assert (known.leader_epoch, known.partition_epoch, known.isr, known.replicas) == (4, 6, [1], [1, 2])
    assert cache.partition(TopicPartition("t", 9)) is None
    assert cache.partition(TopicPartition("x", 0)) is None
    assert cache.has_leaders("t", [0, 1])
    assert not cache.has_leaders("t", [0, 1, 2])
    assert not cache.has_leaders("u", [0])
    assert not cache.has_leaders("x", [])


def test_an_update_that_is_done_late_does_not_bring_back_an_older_leader() -> None:
    """A broker that was slow with a request did it after newer ones; clients were sent to the former leader until the next election."""

    def state(leader_epoch: int, partition_epoch: int) -> UpdateMetadataTopic:
        return UpdateMetadataTopic(
            "t", ID, {0: PartitionMetadata(leader_epoch, leader_epoch, [1], [1], [], partition_epoch, 3)}
        )

    def shown(*requests: UpdateMetadata) -> int:
        found = cache_of(*requests).partition(TopicPartition("t", 0))
        assert found is not None
        return found.leader

    assert shown(update(state(4, 6)), update(state(1, 2))) == 4
    assert shown(update(state(4, 6)), update(state(4, 6)), update(state(5, 7))) == 5
    assert shown(update(state(4, 6)), replace(update(state(1, 2)), controller_epoch=4)) == 1, (
        "a controller that follows"
    )
    again = UpdateMetadataTopic("t", bytes(16), state(1, 2).partitions)
    assert shown(update(state(4, 6)), update(again)) == 1, "another topic of the name"


def test_a_topic_leaves_with_its_last_partition() -> None:
    cache = cache_of(update(topic("t", {0: 1, 1: 1}, ID)))
    assert cache.apply(update(deletion("t", 0))) == [TopicPartition("t", 0)]
    assert cache.topic_name(ID) == "t"
    assert cache.apply(update(deletion("t", 0, 1))) == [TopicPartition("t", 1)]
    assert cache.topics == {}
    assert cache.topic_name(ID) is None


def test_topic_ids_are_learnt_changed_and_forgotten() -> None:
    other = b"another topic id"
    cache = cache_of(update(topic("t", {0: 1})))
    assert cache.topic_name(NO_TOPIC_ID) is None
    cache.apply(update(topic("t", {0: 1}, ID)))
    assert cache.topic_name(ID) == "t"
    cache.apply(update(topic("t", {0: 1}, other)))
    assert (cache.topic_name(ID), cache.topic_name(other)) == (None, "t")
    cache.apply(update(topic("t", {0: 1})))
    assert cache.topic_name(other) is None
    assert cache.topics["t"].topic_id == NO_TOPIC_ID


def test_a_broker_with_logs_shows_no_cluster_without_topics() -> None:
    """A new controller tells of brokers first. Clients that were told that their topics are unknown gave up what they had to send."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        cache = MetadataCache()
        cache.expects_topics = True
        cache.apply(update())
        loop.call_later(3, cache.apply, update(topic("t", {0: 1})))
        await cache.wait_for_controller()
        assert "t" in cache.topics
        assert loop.time() == pytest.approx(3)
        await cache.wait_for_controller()
        assert loop.time() == pytest.approx(3)

        deleted = MetadataCache()
        deleted.expects_topics = True
        deleted.apply(update())
        await deleted.wait_for_controller()  # not for ever, and once
        before_s = loop.time()
        await deleted.wait_for_controller()
        assert loop.time() == before_s

    virtual_time.run(scenario())


def test_waiting_for_a_change() -> None:
    async def scenario() -> None:
        loop, cache = asyncio.get_running_loop(), MetadataCache()
        loop.call_later(1, cache.apply, update())
        loop.call_later(2, cache.apply, update(topic("t", {0: 1})))
        assert await cache.wait_until(lambda: cache.has_leaders("t", [0]), 30)
        assert loop.time() == 2
        assert await cache.wait_until(lambda: True, 0)
        assert not await cache.wait_until(lambda: "u" in cache.topics, 0)
        assert not await cache.wait_until(lambda: "u" in cache.topics, 5)
        assert loop.time() == 7

    virtual_time.run(scenario())

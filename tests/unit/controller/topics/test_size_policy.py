"""What would bring a znode or the list of topics near `jute.maxbuffer` is refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.controller.requests import NewPartitions, NewTopic, TopicReference
from kafkalite.controller.topics.size_policy import surely_fits, usable_bytes
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.memory.memory_store import MemoryStore
from zk.size_limits import SizeLimits, list_bytes, operation_bytes
from zk.store import Operation, Result
from zk.znodes import TopicAssignment

LIMIT_BYTES = 16_384
WIDE = (1, 2, *range(2_000_000_000, 2_000_000_098))
"""A hundred replicas, which take a kilobyte of an assignment; all but two are on brokers that are not there."""


async def small_cluster(*broker_ids: int) -> FakeCluster:
    return await FakeCluster(kafkalite_zookeeper_jute_maxbuffer=LIMIT_BYTES).start(*broker_ids)


def wide_topic(name: str, partitions: int) -> NewTopic:
    return NewTopic(name, assignments=tuple((index, WIDE) for index in range(partitions)))


def refusal_of(outcome: object) -> str:
    assert isinstance(outcome, KafkaError) and outcome.code is ErrorCode.POLICY_VIOLATION, outcome
    return str(outcome)


def test_the_list_of_topics_gets_no_longer_than_brokers_can_read() -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1)
        room = (usable_bytes(LIMIT_BYTES) - list_bytes(())) // 244
        names = [f"{number:0240d}" for number in range(room + 4)]
        outcomes = await cluster.controller.create_topics([NewTopic(name, 1, 1) for name in names])
        await cluster.quiet()
        refused = [outcome for outcome in outcomes.values() if isinstance(outcome, KafkaError)]
        assert len(refused) == 4, "topics that are created at the same time count"
        message = refusal_of(refused[0])
        assert "/brokers/topics" in message and "14745" in message and f"{LIMIT_BYTES} bytes, jute.maxbuffer" in message
        assert "Delete topics" in message and "kafkalite.zookeeper.jute.maxbuffer" in message
        there = await cluster.tool.children(paths.TOPICS)
        assert there == await cluster.tool.children(paths.CONFIG_TOPICS) and len(there) == room
        figures = cluster.controller.statistics()
        assert (figures["topic_list_bytes"], figures["topic_list_max_bytes"]) == (list_bytes(there), 14_745)
        (only_asked,) = (
            await cluster.controller.create_topics([NewTopic("x" * 240, 1, 1)], validate_only=True)
        ).values()
        assert refusal_of(only_asked)

        deleted = await cluster.controller.delete_topics([TopicReference(there[0])])
        assert [code_of(problem) for _, problem in deleted] == [ErrorCode.NONE]
        await cluster.quiet()
        (again,) = (await cluster.controller.create_topics([NewTopic("x" * 240, 1, 1)])).values()
        assert code_of(again) is ErrorCode.NONE
        await cluster.stop()

    run(scenario())


def test_a_list_that_is_too_long_already_can_be_deleted_from() -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1)
        for number in range(70):
            await cluster.tool.create(paths.topic(f"{number:0240d}"), TopicAssignment({0: (1,)}).encode())
        await cluster.quiet()
        assert list_bytes(await cluster.tool.children(paths.TOPICS)) > LIMIT_BYTES
        await cluster.controller.delete_topics([TopicReference(f"{number:0240d}") for number in range(70)])
        await cluster.quiet(4000)
        assert await cluster.tool.children(paths.TOPICS) == []
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (wide_topic("t", 14), "Use fewer partitions or replicas"),
        (NewTopic("t", 1, 1, (), (("leader.replication.throttled.replicas", "0:1," * 4000 + "0:1"),)), "Shorten them"),
    ],
)
def test_a_topic_whose_znodes_are_too_large(topic: NewTopic, words: str) -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1, 2)
        for validate_only in (True, False):
            (outcome,) = (await cluster.controller.create_topics([topic], validate_only=validate_only)).values()
            message = refusal_of(outcome)
            assert words in message and "14745" in message and "a znode can have" in message
        assert not await cluster.has(paths.topic("t")) and not await cluster.has(paths.topic_config("t"))
        await cluster.stop()

    run(scenario())


def test_more_partitions_than_fit() -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1, 2)
        await cluster.controller.create_topics([NewTopic("t", 10, 2)])
        await cluster.quiet()
        before = await cluster.tool.read(paths.topic("t"))
        charged: list[int] = []
        for count, code in ((1300, ErrorCode.POLICY_VIOLATION), (11, ErrorCode.NONE)):
            wanted = [NewPartitions("t", count)]
            outcomes = await cluster.controller.create_partitions(wanted, charge=charged.append)
            assert code_of(outcomes["t"]) is code
            if code is not ErrorCode.NONE:
                assert await cluster.tool.read(paths.topic("t")) == before and charged == []
        assert charged == [1]
        await cluster.stop()

    run(scenario())


def test_moves_that_would_not_fit_are_refused_together_and_fewer_are_not() -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1, 2)
        await cluster.controller.create_topics([wide_topic("t", 12), NewTopic("other", assignments=((0, (1,)),))])
        await cluster.quiet()
        before = await cluster.tool.read(paths.topic("t"))
        wanted: dict[Any, Any] = {TopicPartition("t", index): (1, 2) for index in range(12)}
        outcomes = await cluster.controller.alter_partition_reassignments({**wanted, TopicPartition("other", 0): (2,)})
        await cluster.quiet()
        assert code_of(outcomes.pop(TopicPartition("other", 0))) is ErrorCode.NONE
        assert all("Move fewer partitions at a time" in refusal_of(outcome) for outcome in outcomes.values())
        assert await cluster.tool.read(paths.topic("t")) == before

        one = {TopicPartition("t", 0): (1, 2)}
        assert list((await cluster.controller.alter_partition_reassignments(one)).values()) == [None]
        await cluster.quiet()
        assert len((await cluster.topic("t")).partitions[0]) == 2
        await cluster.stop()

    run(scenario())


def test_a_move_is_cancelled_whatever_the_size() -> None:
    async def scenario() -> None:
        cluster = await small_cluster(1, 2)
        partitions = dict.fromkeys(range(14), WIDE) | {0: (9, *WIDE)}
        moving = TopicAssignment(partitions, None, {0: (9,)}, {0: WIDE}).encode()
        assert len(moving) > usable_bytes(LIMIT_BYTES)
        await cluster.tool.create(paths.topic("t"), moving)
        await cluster.quiet()
        place = TopicPartition("t", 0)
        assert place in await cluster.controller.list_partition_reassignments(None)
        (refused,) = (await cluster.controller.alter_partition_reassignments({place: (2, 9)})).values()
        assert refusal_of(refused)
        assert list((await cluster.controller.alter_partition_reassignments({place: None})).values()) == [None]
        await cluster.quiet()
        assert await cluster.controller.list_partition_reassignments(None) == {}
        assert (await cluster.topic("t")).partitions[0] == WIDE
        await cluster.stop()

    run(scenario())


def test_writes_of_the_controller_are_divided_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four topics of 50 KB in one multi were more than a server takes: it closed the connection, three times."""
    sizes: list[int] = []
    send = MemoryStore._multi

    async def measure(store: MemoryStore, operations: list[Operation]) -> list[Result]:
        sizes.append(sum(map(operation_bytes, operations)))
        return await send(store, operations)

    async def scenario() -> None:
        cluster = await small_cluster(1, 2, 3)
        topics = [wide_topic(f"t{number}", 4) for number in range(12)]
        await cluster.controller.create_topics(topics)
        await cluster.quiet()
        monkeypatch.setattr(MemoryStore, "_multi", measure)
        moved = {TopicPartition(topic.name, 0): (3, 1) for topic in topics}
        outcomes = await cluster.controller.alter_partition_reassignments(moved)
        await cluster.quiet()
        assert set(outcomes.values()) == {None}
        assert LIMIT_BYTES / 2 < max(sizes) <= LIMIT_BYTES
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("brokers", [(2_147_483_647,) * 3, (1,), ()])
def test_what_surely_fits_does(brokers: tuple[int, ...]) -> None:
    indices = range(9000, 10_000)
    assignment = TopicAssignment(dict.fromkeys(indices, brokers), "x" * 22, dict.fromkeys(indices, brokers), {})
    size = len(assignment.encode())
    enough = SizeLimits.of(int(size / 0.9))
    assert not surely_fits(enough, 1000, [len(brokers) * 2] * 1000)
    for limit in range(size, 10 * size, size // 20):
        if surely_fits(SizeLimits.of(limit), 1000, [len(brokers) * 2] * 1000):
            assert size + 400 <= usable_bytes(limit)
            return
    raise AssertionError("nothing fits")

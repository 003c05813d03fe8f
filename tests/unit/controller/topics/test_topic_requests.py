"""CreateTopics, CreatePartitions and DeleteTopics: checks in Kafka's order, defaults, and what ends up in ZooKeeper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite.controller.requests import NewPartitions, NewTopic, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import NO_TOPIC_ID
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths


def _topic(name: str = "t", partitions: int = -1, factor: int = -1, **more: Any) -> NewTopic:
    assignments = tuple((index, tuple(brokers)) for index, brokers in more.get("assignments", {}).items())
    return NewTopic(name, partitions, factor, assignments, tuple(more.get("configs", {}).items()))


async def _create(cluster: FakeCluster, *topics: NewTopic, validate_only: bool = False) -> dict[str, Any]:
    outcomes = await cluster.controller.create_topics(topics, validate_only=validate_only)
    await cluster.quiet()
    return outcomes


def test_a_topic_with_defaults() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(num_partitions=4, default_replication_factor=2).start(1, 2, 3)
        (result,) = (await _create(cluster, _topic(configs={"retention.ms": "1000"}))).values()
        assert (result.partition_count, result.replication_factor) == (4, 2)
        shown = {entry.name: (entry.value, entry.source) for entry in result.configs}
        assert shown["retention.ms"] == ("1000", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)
        topic = await cluster.topic("t")
        assert sorted(topic.partitions) == [0, 1, 2, 3]
        assert all(len(set(replicas)) == 2 for replicas in topic.partitions.values())
        assert topic.topic_id is not None
        assert cluster.controller.cluster.topics["t"].topic_id == result.topic_id
        data, _ = await cluster.tool.read(paths.topic_config("t"))
        assert json.loads(data) == {"version": 1, "config": {"retention.ms": "1000"}}
        assert (await cluster.state("t-3")).leader == topic.partitions[3][0]
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (_topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (_topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "not allowed"),
        (_topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (_topic("n" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        (_topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (_topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (_topic("dotted_name"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topics: dotted.name"),
        (_topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "larger than 0"),
        (_topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (_topic(factor=4), ErrorCode.INVALID_REPLICATION_FACTOR, "4 larger than available brokers: 2"),
        (_topic(configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
        (_topic(configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG, "retention.ms"),
        (_topic(configs={"no.such.key": "1"}), ErrorCode.INVALID_CONFIG, "no.such.key"),
        (_topic(partitions=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "cannot be used at the same time"),
        (_topic(assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (_topic(assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate"),
        (_topic(assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty"),
        (_topic(assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "same number"),
    ],
)
def test_refused_topics(topic: Any, code: ErrorCode, message: str) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("there", [1])
        await cluster.create_topic("dotted.name", [1])
        (result,) = (await _create(cluster, topic)).values()
        assert code_of(result) == code, result
        assert message in str(result)
        assert not await cluster.has(paths.topic_config("t"))
        await cluster.stop()

    run(scenario())


def test_one_bad_topic_does_not_hurt_the_others_and_repeated_ones_are_refused() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        outcomes = await _create(cluster, _topic("good"), _topic("bad!"), _topic("twice"), _topic("twice"))
        assert {name: code_of(outcome) for name, outcome in outcomes.items()} == {
            "good": ErrorCode.NONE,
            "bad!": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "twice": ErrorCode.INVALID_REQUEST,
        }
        await cluster.stop()

    run(scenario())


def test_validation_only_writes_nothing() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        (result,) = (await _create(cluster, _topic(partitions=3), validate_only=True)).values()
        assert (result.topic_id, result.partition_count) == (NO_TOPIC_ID, 3)
        assert not await cluster.has(paths.topic("t"))
        await cluster.stop()

    run(scenario())


def test_a_manual_assignment_with_a_dead_broker() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        (result,) = (await _create(cluster, _topic(assignments={0: [9, 2], 1: [9, 8]}))).values()
        assert code_of(result) == ErrorCode.NONE
        assert await cluster.short_state("t-0") == (2, [2], 0)
        assert not await cluster.has(paths.partition_state("t", 1))
        await cluster.start(9)
        assert await cluster.short_state("t-1") == (9, [9], 0)
        await cluster.stop()

    run(scenario())


def test_a_topic_that_is_being_deleted_cannot_be_created() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        cluster.brokers[1].unreachable = True
        await cluster.create_topic("u", [1])
        await cluster.delete_topic("u")
        (result,) = (await _create(cluster, _topic("u"))).values()
        assert code_of(result) == ErrorCode.TOPIC_ALREADY_EXISTS
        await cluster.stop()

    run(scenario())


async def _enlarge(cluster: FakeCluster, name: str, count: int, assignments: list[list[int]] | None = None) -> int:
    given = None if assignments is None else tuple(map(tuple, assignments))
    outcomes = await cluster.controller.create_partitions([NewPartitions(name, count, given)])
    await cluster.quiet()
    return code_of(outcomes[name])


def test_partitions_are_added() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [2, 3])
        before = await cluster.topic("t")
        assert await _enlarge(cluster, "t", 3) == 0
        after = await cluster.topic("t")
        assert after.topic_id == before.topic_id
        assert len(after.partitions) == 3
        assert (await cluster.state("t-2")).leader == after.partitions[2][0]
        assert cluster.brokers[after.partitions[2][0]].told("t-2")[0][3], "new on the brokers"
        assert await _enlarge(cluster, "t", 4, [[3, 1]]) == 0
        assert (await cluster.topic("t")).partitions[3] == (3, 1)
        assert await _enlarge(cluster, "t", 4) == ErrorCode.INVALID_PARTITIONS
        assert await _enlarge(cluster, "t", 2) == ErrorCode.INVALID_PARTITIONS
        assert await _enlarge(cluster, "ghost", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        for bad in ([], [[1, 9]], [[1]], [[1, 1]]):
            assert await _enlarge(cluster, "t", 5, bad) == invalid, bad
        await cluster.stop()

    run(scenario())


async def _delete(cluster: FakeCluster, *topics: Any) -> dict[str | None, int]:
    wanted = [TopicReference(t) if isinstance(t, str) else TopicReference(topic_id=t) for t in topics]
    outcomes = await cluster.controller.delete_topics(wanted)
    await cluster.quiet()
    return {name: code_of(problem) for name, problem in outcomes}


def test_topics_are_deleted_by_name_and_by_id() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.create_topic("named", [1])
        await cluster.create_topic("identified", [1])
        topic_id = cluster.controller.cluster.topics["identified"].topic_id
        assert await _delete(cluster, "named", topic_id, "ghost") == {
            "named": 0,
            "identified": 0,
            "ghost": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await cluster.tool.children(paths.TOPICS) == []
        assert await _delete(cluster, topic_id) == {None: ErrorCode.UNKNOWN_TOPIC_ID}
        await cluster.stop()

    run(scenario())


def test_deletion_may_be_disabled() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster(delete_topic_enable=False).start(1)
        await cluster.create_topic("t", [1])
        assert await _delete(cluster, "t") == {"t": ErrorCode.TOPIC_DELETION_DISABLED}
        await cluster.stop()

    run(scenario())


def test_only_the_active_controller_answers() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        other = cluster.members[2].controller
        assert (other.is_active, other.active_controller_id) == (False, 1)
        with pytest.raises(KafkaError) as refused:
            await other.create_topics([_topic()])
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        await cluster.stop()

    run(scenario())


def test_partitions_are_charged_before_they_are_created_or_deleted_and_not_when_only_looked_at() -> None:
    """What Kafka's ControllerMutationQuota is given (KIP-599)."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        controller, charged = cluster.controller, list[int]()
        await controller.create_topics([_topic("t", 3, 1)], charge=charged.append)
        await cluster.quiet()
        await controller.create_topics(
            [_topic("t", 3, 1), _topic("u", 4, 1)], validate_only=True, charge=charged.append
        )
        await controller.create_partitions([NewPartitions("t", 9)], validate_only=True, charge=charged.append)
        assert charged == [3]
        await controller.create_partitions([NewPartitions("t", 5), NewPartitions("x", 5)], charge=charged.append)
        await cluster.quiet()
        await controller.delete_topics([TopicReference("x"), TopicReference("t")], charge=charged.append)
        assert charged == [3, 2, 5]

        def refuse(partitions: int) -> None:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

        for outcome in (
            (await controller.create_topics([_topic("v", 1, 1)], charge=refuse))["v"],
            (await controller.delete_topics([TopicReference("t")], charge=refuse))[0][1],
        ):
            assert code_of(outcome) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "v" not in await cluster.tool.children(paths.TOPICS)
        await cluster.stop()

    run(scenario())

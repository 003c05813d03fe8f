"""Administration against a scripted cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.client import Admin, AdminError, ConfigEntry, CreatedTopic, DeletedRecords, NewTopic
from kafkalite.client.cluster.view import TOPICS_AT_ONCE
from kafkalite.client.errors import ClientError, ClientTimeoutError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition, topic_id_to_text
from tests.unit.client.fake_broker import TOPIC_ID, FakeCluster

T0 = TopicPartition("t", 0)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await coroutine

    virtual_time.run(in_time())


def admin(cluster: FakeCluster, **options: Any) -> Admin:
    options = {"retry_backoff_ms": 2, "retry_backoff_max_ms": 10, "default_api_timeout_ms": 2000, **options}
    return Admin(bootstrap_servers="fake:9002", opener=cluster.open, **options)


def created(*results: tuple[str, int]) -> Any:
    m = messages.create_topics_response
    return m.CreateTopicsResponse(
        topics=[
            m.CreatableTopicResult(
                name=name,
                error_code=code,
                topic_id=TOPIC_ID,
                num_partitions=2,
                replication_factor=1,
                error_message="why",
            )
            for name, code in results
        ]
    )


def test_topics_are_created_by_the_controller() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.CREATE_TOPICS].append(created(("a", 0), ("b", 0)))

    async def scenario() -> None:
        async with admin(cluster) as target:
            found = await target.create_topics(
                [NewTopic("a", 2, 1, topic_configs={"x": "1"}), NewTopic("b", replica_assignments={0: [2, 1]})]
            )
            assert found == [CreatedTopic(name, topic_id_to_text(TOPIC_ID), 2, 1) for name in "ab"]
            assert found[0].to_dict()["num_partitions"] == 2

    run(scenario())
    ((broker, request),) = [each for each in cluster.requests if each[1].API.key == ApiKey.CREATE_TOPICS]
    first, second = request.topics
    assert broker == cluster.controller_id
    assert (first.num_partitions, first.replication_factor, first.configs[0].value) == (2, 1, "1")
    assert (second.num_partitions, second.assignments[0].broker_ids) == (-1, [2, 1])


def test_what_failed_is_told_by_name_and_the_rest_is_done() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.CREATE_TOPICS].append(created(("a", 36), ("b", 0), ("c", 37)))

    async def scenario() -> None:
        async with admin(cluster) as target:
            with pytest.raises(AdminError, match="creating topic a: why") as raised:
                await target.create_topics([NewTopic(name) for name in "abc"])
            assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert {name: error.code for name, error in raised.value.failures.items()} == {"a": 36, "c": 37}

    run(scenario())


def test_a_controller_that_moved_is_followed() -> None:
    cluster = FakeCluster({})

    def moved(_: int, __: Any) -> Any:
        cluster.controller_id = 2
        return created(("a", 41))

    cluster.script[ApiKey.CREATE_TOPICS].extend([moved, created(("a", 0))])

    async def scenario() -> None:
        async with admin(cluster) as target:
            await target.create_topics([NewTopic("a")])

    run(scenario())
    assert [broker for broker, each in cluster.requests if each.API.key == ApiKey.CREATE_TOPICS] == [1, 2]


def test_without_a_controller_the_call_ends_in_time() -> None:
    cluster = FakeCluster({})
    cluster.controller_id = -1

    async def scenario() -> None:
        async with admin(cluster, default_api_timeout_ms=60) as target:
            with pytest.raises(ClientTimeoutError, match="no controller"):
                await target.create_topics([NewTopic("a")])

    run(scenario())


def test_topics_are_deleted() -> None:
    cluster = FakeCluster({})
    m = messages.delete_topics_response
    answers = [m.DeletableTopicResult(name="a"), m.DeletableTopicResult(name="b", error_code=3)]
    cluster.script[ApiKey.DELETE_TOPICS].append(m.DeleteTopicsResponse(responses=answers))

    async def scenario() -> None:
        async with admin(cluster) as target:
            with pytest.raises(AdminError) as raised:
                await target.delete_topics(["a", "b"])
            assert set(raised.value.failures) == {"b"}

    run(scenario())


def test_topics_are_described() -> None:
    cluster = FakeCluster({"t": 2, "u": 1})

    async def scenario() -> None:
        async with admin(cluster) as target:
            assert await target.list_topics() == ["t", "u"]
            (found,) = await target.describe_topics(["t"])
            assert [each.leader for each in found.partitions] == [1, 2] and found.replication_factor == 2
            assert found.to_dict()["partitions"][1]["replicas"] == [1, 2]
            assert [each.name for each in await target.describe_topics()] == ["t", "u"]
            with pytest.raises(ClientError, match="topic nope") as raised:
                await target.describe_topics(["t", "nope"])
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario())


def test_records_are_deleted_by_the_leaders() -> None:
    cluster = FakeCluster({"t": 2})
    m = messages.delete_records_response

    def answer(_: int, request: Any) -> Any:
        (topic,) = request.topics
        results = [
            m.DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=p.offset)
            for p in topic.partitions
        ]
        return m.DeleteRecordsResponse(topics=[m.DeleteRecordsTopicResult(name="t", partitions=results)])

    cluster.script[ApiKey.DELETE_RECORDS].extend([answer, answer])

    async def scenario() -> None:
        async with admin(cluster) as target:
            t1 = TopicPartition("t", 1)
            found = await target.delete_records({T0: 5, t1: 7})
            assert found == [DeletedRecords(T0, 5), DeletedRecords(t1, 7)]
            assert found[0].to_dict() == {"topic": "t", "partition": 0, "low_watermark": 5}

    run(scenario())
    assert {broker for broker, each in cluster.requests if each.API.key == ApiKey.DELETE_RECORDS} == {1, 2}


def test_offsets() -> None:
    cluster = FakeCluster({"t": 1})

    async def scenario() -> None:
        async with admin(cluster) as target:
            found = await target.list_offsets({T0: "latest"})
            assert found[T0] is not None and found[T0].to_dict()["offset"] == 0
            with pytest.raises(ValueError, match="no offset 'middle'"):
                await target.list_offsets({T0: "middle"})
            with pytest.raises(ClientError, match="topic nope"):
                await target.list_offsets({TopicPartition("nope", 0): "latest"})

    run(scenario())


def test_who_has_described_topics_does_not_ask_for_their_leaders_again() -> None:
    cluster = FakeCluster({"t": 3})

    async def scenario() -> None:
        async with admin(cluster) as target:
            described = {each.name: each for each in await target.describe_topics(["t"])}
            cluster.requests.clear()
            wanted = {TopicPartition("t", number): "earliest" for number in (2, 0, 1)}
            found = await target.list_offsets(wanted, described=described)
            assert len(found) == 3 and [each.API.key for _, each in cluster.requests] == [ApiKey.LIST_OFFSETS] * 2
            cluster.move_leader(T0, 2)
            assert set(await target.list_offsets(wanted, described=described)) == set(wanted), (
                "the leader is looked for"
            )
            with pytest.raises(ClientError, match="nope-0"):
                await target.list_offsets({TopicPartition("nope", 0): "latest"}, described=described)
            assert described["t"].partition(1) == described["t"].partitions[1]
            assert described["t"].partition(3) is described["t"].partition(-1) is None

    run(scenario())


def test_topics_that_are_asked_about_once_are_not_kept() -> None:
    """Each refresh would ask for all that were ever looked at."""
    cluster = FakeCluster({f"t-{number}": 1 for number in range(5)})

    async def scenario() -> None:
        async with admin(cluster) as target:
            for name in cluster.topics:
                await target.list_offsets({TopicPartition(name, 0): "latest"})
            assert len(cluster.requests_of(ApiKey.METADATA)) == 1 + 5
            await target._cluster.refresh()
            assert cluster.requests_of(ApiKey.METADATA)[-1].topics == []

    run(scenario())


def test_others_are_served_while_very_many_topics_are_described() -> None:
    cluster = FakeCluster({f"t-{number:04}": 1 for number in range(6 * TOPICS_AT_ONCE)})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with admin(cluster) as target:
            task = asyncio.ensure_future(others())
            described = await target.describe_topics()
            task.cancel()
            assert [each.name for each in described] == sorted(cluster.topics) and turns >= 2 * 5

    run(scenario())


def test_the_cluster_is_described() -> None:
    cluster = FakeCluster({})
    m = messages.describe_cluster_response
    brokers = [
        m.DescribeClusterBroker(broker_id=2, host="h", port=2),
        m.DescribeClusterBroker(broker_id=1, host="h", port=1),
    ]
    cluster.script[ApiKey.DESCRIBE_CLUSTER].append(
        m.DescribeClusterResponse(cluster_id="c", controller_id=2, brokers=brokers)
    )

    async def scenario() -> None:
        async with admin(cluster) as target:
            found = await target.describe_cluster()
            assert (found.cluster_id, found.controller_id, [each.id for each in found.brokers]) == ("c", 2, [1, 2])
            assert found.to_dict()["brokers"][0] == {"id": 1, "host": "h", "port": 1, "rack": None}

    run(scenario())


def test_settings_of_a_broker_are_asked_of_that_broker() -> None:
    cluster = FakeCluster({})
    m = messages.describe_configs_response
    entry = m.DescribeConfigsResourceResult(name="x", value="1", config_source=5, read_only=True)
    answer = m.DescribeConfigsResponse(
        results=[m.DescribeConfigsResult(resource_type=4, resource_name="2", configs=[entry])]
    )
    cluster.script[ApiKey.DESCRIBE_CONFIGS].append(answer)

    async def scenario() -> None:
        async with admin(cluster) as target:
            found = await target.describe_configs("broker", "2")
            assert found == {"x": ConfigEntry("x", "1", "DEFAULT_CONFIG", True, False)} and found["x"].is_default
            with pytest.raises(ValueError, match="no resource type"):
                await target.describe_configs("planet", "earth")

    run(scenario())
    assert [broker for broker, each in cluster.requests if each.API.key == ApiKey.DESCRIBE_CONFIGS] == [2]

"""Partitions added, moved and led: what is asked of the controller, and what becomes of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.client import Admin, AdminError, NewPartitions, PartitionReassignment
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def ask(cluster: FakeCluster, call: Callable[[Admin], Awaitable[Any]]) -> Any:
    async def in_time() -> Any:
        options = {"retry_backoff_ms": 2, "retry_backoff_max_ms": 10, "default_api_timeout_ms": 2000}
        async with asyncio.timeout(20), Admin(bootstrap_servers="fake:9002", opener=cluster.open, **options) as admin:  # type: ignore[arg-type]
            return await call(admin)

    return virtual_time.run(in_time())


def created(*results: tuple[str, int]) -> Any:
    m = messages.create_partitions_response
    found = [m.CreatePartitionsTopicResult(name=name, error_code=code, error_message="why") for name, code in results]
    return m.CreatePartitionsResponse(results=found)


def elected(*results: tuple[TopicPartition, int], error_code: int = 0) -> Any:
    m = messages.elect_leaders_response
    found = [
        m.ReplicaElectionResult(
            topic=each.topic, partition_result=[m.PartitionResult(partition_id=each.partition, error_code=code)]
        )
        for each, code in results
    ]
    return m.ElectLeadersResponse(replica_election_results=found, error_code=error_code)


def altered(*results: tuple[TopicPartition, int], error_code: int = 0) -> Any:
    m = messages.alter_partition_reassignments_response
    found = [
        m.ReassignableTopicResponse(
            name=each.topic,
            partitions=[m.ReassignablePartitionResponse(partition_index=each.partition, error_code=code)],
        )
        for each, code in results
    ]
    return m.AlterPartitionReassignmentsResponse(responses=found, error_code=error_code)


def test_partitions_are_added() -> None:
    cluster = FakeCluster({"t": 2, "u": 1})
    cluster.script[ApiKey.CREATE_PARTITIONS].append(created(("t", 0), ("u", 0)))
    ask(cluster, lambda admin: admin.create_partitions({"t": 4, "u": NewPartitions(2, [[2, 1]])}, validate_only=True))
    (request,) = cluster.requests_of(ApiKey.CREATE_PARTITIONS)
    assert [(topic.name, topic.count) for topic in request.topics] == [("t", 4), ("u", 2)]
    assert request.topics[0].assignments is None and request.topics[1].assignments[0].broker_ids == [2, 1]
    assert request.validate_only and (1, request) in cluster.requests, "the controller was asked"


def test_a_new_controller_is_asked_for_the_rest_only() -> None:
    cluster = FakeCluster({"t": 2, "u": 1})

    def moved(_: int, __: Any) -> Any:
        cluster.controller_id = 2
        return created(("u", 0), ("t", ErrorCode.NOT_CONTROLLER))

    cluster.script[ApiKey.CREATE_PARTITIONS].extend([moved, created(("t", ErrorCode.INVALID_PARTITIONS))])
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.create_partitions({"t": 1, "u": 2}))
    assert list(caught.value.failures) == ["t"] and caught.value.code is ErrorCode.INVALID_PARTITIONS
    first, second = cluster.requests_of(ApiKey.CREATE_PARTITIONS)
    assert [topic.name for topic in second.topics] == ["t"] and len(first.topics) == 2
    assert (2, second) in cluster.requests


def test_elections_say_where_one_was_needed() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.script[ApiKey.ELECT_LEADERS].append(elected((T0, 0), (T1, ErrorCode.ELECTION_NOT_NEEDED)))
    assert ask(cluster, lambda admin: admin.elect_leaders("preferred", [T0, T1])) == {T0: True, T1: False}
    (request,) = cluster.requests_of(ApiKey.ELECT_LEADERS)
    assert request.election_type == 0 and request.topic_partitions[0].partitions == [0, 1]


def test_elections_everywhere() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.script[ApiKey.ELECT_LEADERS].append(elected((T1, 0)))
    assert ask(cluster, lambda admin: admin.elect_leaders("unclean")) == {T1: True}
    (request,) = cluster.requests_of(ApiKey.ELECT_LEADERS)
    assert request.election_type == 1 and request.topic_partitions is None
    assert ask(cluster, lambda admin: admin.elect_leaders("preferred", [])) == {}, "none is not all"
    with pytest.raises(ValueError, match="preferred, unclean"):
        ask(cluster, lambda admin: admin.elect_leaders("lucky"))


def test_failed_elections_are_listed() -> None:
    cluster = FakeCluster({"t": 2})
    answer = elected((T0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (T1, 0))
    cluster.script[ApiKey.ELECT_LEADERS].append(answer)
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.elect_leaders("preferred", [T0, T1]))
    assert list(caught.value.failures) == ["t-0"]
    cluster.script[ApiKey.ELECT_LEADERS].append(elected(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(ClientError) as refused:
        ask(cluster, lambda admin: admin.elect_leaders())
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_moves_begin_and_are_cancelled() -> None:
    cluster = FakeCluster({"t": 2, "u": 1})
    cluster.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0), (U0, 0)))
    ask(cluster, lambda admin: admin.alter_partition_reassignments({T0: [2, 3], U0: None}))
    (request,) = cluster.requests_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert [(topic.name, topic.partitions[0].replicas) for topic in request.topics] == [("t", [2, 3]), ("u", None)]


def test_a_controller_that_moved_is_found_again() -> None:
    cluster = FakeCluster({"t": 2})

    def moved(_: int, __: Any) -> Any:
        cluster.controller_id = 2
        return altered(error_code=ErrorCode.NOT_CONTROLLER)

    failed = altered((T0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))
    cluster.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].extend([moved, failed])
    with pytest.raises(AdminError, match="t-0"):
        ask(cluster, lambda admin: admin.alter_partition_reassignments({T0: None}))
    assert [broker for broker, request in cluster.requests if request.API.key == 45] == [1, 2]


def test_moves_that_go_on_are_listed() -> None:
    cluster = FakeCluster({"t": 2})
    m = messages.list_partition_reassignments_response
    moving = m.OngoingPartitionReassignment(
        partition_index=1, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[1]
    )
    answer = m.ListPartitionReassignmentsResponse(topics=[m.OngoingTopicReassignment(name="t", partitions=[moving])])
    cluster.script[ApiKey.LIST_PARTITION_REASSIGNMENTS].extend([answer, answer])
    found = ask(cluster, lambda admin: admin.list_partition_reassignments())
    assert found == {T1: PartitionReassignment(T1, (3, 1, 2), (3,), (1,))}
    assert found[T1].to_dict() == {
        "topic": "t",
        "partition": 1,
        "replicas": [3, 1, 2],
        "adding_replicas": [3],
        "removing_replicas": [1],
    }
    ask(cluster, lambda admin: admin.list_partition_reassignments([T0, T1]))
    everything, some = cluster.requests_of(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    assert everything.topics is None and some.topics[0].partition_indexes == [0, 1]

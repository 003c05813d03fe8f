"""Log directories: each broker is asked for itself."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client import AdminError, LogDir, LogDirReplica, TopicPartitionReplica
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.admin.test_partition_admin import T0, T1, ask
from tests.unit.client.fake_broker import FakeCluster


def described(broker: int, _: Any) -> Any:
    """Two directories: a sound one with a replica and its copy, and one that failed."""
    m = messages.describe_log_dirs_response
    partitions = [
        m.DescribeLogDirsPartition(partition_index=1, partition_size=7, offset_lag=2, is_future_key=True),
        m.DescribeLogDirsPartition(partition_index=1, partition_size=9),
    ]
    sound = m.DescribeLogDirsResult(
        log_dir=f"/b{broker}/x",
        topics=[m.DescribeLogDirsTopic(name="t", partitions=partitions)],
        total_bytes=100,
        usable_bytes=40,
    )
    failed = m.DescribeLogDirsResult(log_dir=f"/b{broker}/a", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return m.DescribeLogDirsResponse(results=[sound, failed])


def altered(*results: tuple[int, int]) -> Any:
    m = messages.alter_replica_log_dirs_response
    partitions = [
        m.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code) for number, code in results
    ]
    return m.AlterReplicaLogDirsResponse(
        results=[m.AlterReplicaLogDirTopicResult(topic_name="t", partitions=partitions)]
    )


def test_every_broker_that_lives_tells_of_its_directories() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.script[ApiKey.DESCRIBE_LOG_DIRS].extend([described, described])
    found = ask(cluster, lambda admin: admin.describe_log_dirs(partitions=[T0, T1]))
    assert list(found) == [1, 2]
    failed, sound = found[2]
    assert failed == LogDir(2, "/b2/a", "KAFKA_STORAGE_ERROR", -1, -1, ())
    assert sound.replicas == (LogDirReplica(T1, 9, 0, False), LogDirReplica(T1, 7, 2, True))
    assert sound.to_dict()["replicas"][1] == {
        "topic": "t",
        "partition": 1,
        "size_bytes": 7,
        "offset_lag": 2,
        "is_future": True,
    }
    request, _ = cluster.requests_of(ApiKey.DESCRIBE_LOG_DIRS)
    assert [(topic.topic, topic.partitions) for topic in request.topics] == [("t", [0, 1])]


def test_one_broker_is_asked_for_all_that_it_has() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.script[ApiKey.DESCRIBE_LOG_DIRS].append(described)
    assert list(ask(cluster, lambda admin: admin.describe_log_dirs([2]))) == [2]
    ((broker, request),) = [each for each in cluster.requests if each[1].API.key == ApiKey.DESCRIBE_LOG_DIRS]
    assert broker == 2 and request.topics is None


def test_a_broker_that_fails_is_named() -> None:
    cluster = FakeCluster({"t": 2})
    refused = messages.describe_log_dirs_response.DescribeLogDirsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    cluster.script[ApiKey.DESCRIBE_LOG_DIRS].append(refused)
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.describe_log_dirs([1]))
    assert list(caught.value.failures) == ["1"]


def test_replicas_are_moved_each_by_its_broker() -> None:
    cluster = FakeCluster({"t": 2})
    cluster.script[ApiKey.ALTER_REPLICA_LOG_DIRS].extend(
        [lambda broker, _: altered((0, 0), (1, 0 if broker == 1 else ErrorCode.LOG_DIR_NOT_FOUND))] * 2
    )
    targets = {
        TopicPartitionReplica("t", 0, 1): "/x",
        TopicPartitionReplica("t", 1, 1): "/x",
        TopicPartitionReplica("t", 1, 2): "/y",
    }
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.alter_replica_log_dirs(targets))
    assert list(caught.value.failures) == ["t-1 on broker 2"]
    sent = {
        broker: [(each.path, [(t.name, t.partitions) for t in each.topics]) for each in request.dirs]
        for broker, request in cluster.requests
        if request.API.key == ApiKey.ALTER_REPLICA_LOG_DIRS
    }
    assert sent == {1: [("/x", [("t", [0, 1])])], 2: [("/y", [("t", [1])])]}

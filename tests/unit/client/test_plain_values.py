"""Results as plain values: what JSON and tables show of them."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from kafkalite.client import (
    ConfigEntry,
    ConfigSynonym,
    DeletedRecords,
    GroupMember,
    LogDir,
    LogDirReplica,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    PartitionReassignment,
    TopicPartition,
    UnknownOptionError,
)

T0 = TopicPartition("t", 0)


def test_a_partition_shows_as_topic_and_number() -> None:
    assert DeletedRecords(T0, 7).to_dict() == {"topic": "t", "partition": 0, "low_watermark": 7}
    moving = PartitionReassignment(T0, (1, 2), (2,), ())
    assert moving.to_dict() == {
        "topic": "t",
        "partition": 0,
        "replicas": [1, 2],
        "adding_replicas": [2],
        "removing_replicas": [],
    }


def test_results_in_results_are_plain_too_and_survive_json() -> None:
    replica = LogDirReplica(T0, 10, 0, False)
    entry = ConfigEntry("k", "v", "DEFAULT_CONFIG", False, False, None, (ConfigSynonym("k", "v", "DEFAULT_CONFIG"),))
    member = GroupMember("m", None, "c", "/h", ("t",), (T0,))
    for result in (LogDir(1, "/d", None, -1, -1, (replica,)), entry, member):
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert member.to_dict()["partitions"] == [{"topic": "t", "partition": 0}]
    assert entry.to_dict()["synonyms"] == [{"name": "k", "value": "v", "source": "DEFAULT_CONFIG"}]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda: NewTopic("t", partitions=3),  # type: ignore[call-arg]
            "NewTopic has no 'partitions'; did you mean num_partitions? (it has name, num_partitions, replication_factor, ",
        ),
        (
            lambda: NewPartitions(count=3),  # type: ignore[call-arg]
            "NewPartitions has no 'count' (it has total_count, replica_assignments)",
        ),
        (
            lambda: OffsetAndMetadata(3, metdata=""),  # type: ignore[call-arg]
            "OffsetAndMetadata has no 'metdata'; did you mean metadata? (",
        ),
    ],
)
def test_a_wrong_keyword_is_told_with_the_nearest_one(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(UnknownOptionError, match=re.escape(problem)):
        make()
    with pytest.raises(TypeError):
        make()


def test_values_with_checked_keywords_are_dataclasses_as_before() -> None:
    topic = NewTopic("t", 3, topic_configs={"retention.ms": "1"})
    assert replace(pickle.loads(pickle.dumps(topic)), num_partitions=4) == NewTopic(
        "t", 4, topic_configs={"retention.ms": "1"}
    )
    assert list(inspect.signature(NewTopic).parameters) == [each.name for each in fields(NewTopic)]

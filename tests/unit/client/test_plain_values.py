"""Results as plain values: what JSON and tables show of them."""

from __future__ import annotations

import json

from kafkalite.client import (
    ConfigEntry,
    ConfigSynonym,
    DeletedRecords,
    GroupMember,
    LogDir,
    LogDirReplica,
    PartitionReassignment,
    TopicPartition,
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

"""`kafkalite group` against live brokers, with groups of a client that is not ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.local.broker_process import wait_until
from tests.wire.conftest import TopicMaker
from tests.wire.group_members import Member, Settings

pytestmark = pytest.mark.wire

SETTLE_S = 40


@pytest.fixture(autouse=True)
def brokers(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", servers)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["group", *arguments])


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = call(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@contextmanager
def joined(servers: str, group: str, topic: str) -> Iterator[None]:
    member = Member(Settings("confluent", servers, group, (topic,)))
    try:
        wait_until(lambda: len(member.owned) == 2, "both partitions", SETTLE_S)
        yield
    finally:
        member.stop()


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    offsets = [confluent_kafka.TopicPartition(topic, partition, offset) for partition in (0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def progress(group: str) -> list[tuple[int, int, int]]:
    return [(row["partition"], row["committed_offset"], row["lag"]) for row in rows("describe", group)]


def test_a_group_is_seen_moved_and_deleted(servers: str, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=2), "command"
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(SETTLE_S) == 0
    commit(servers, group, topic, 4)
    assert progress(group) == [(0, 4, 6), (1, 4, 6)]
    with joined(servers, group, topic):
        (member,) = rows("members", group)
        assert member["partitions"] == [f"{topic}-0", f"{topic}-1"] and member["topics"] == [topic]
        assert {row["owner"] for row in rows("describe", group)} == {member["member_id"]}
        assert [row["state"] for row in rows("list", "--state", "stable") if row["group"] == group] == ["Stable"]
        refused = call("reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        assert refused.exit_code == 1 and member["member_id"] in refused.stderr
        assert call("delete-offsets", group, "--topic", topic, "-y").exit_code == 1
        assert call("delete", group, "-y").exit_code == 1
    wait_until(lambda: rows("describe", group, "--summary")[0]["state"] == "Empty", "an empty group", SETTLE_S)
    reset = ("reset-offsets", group, "--topic", topic)
    before = progress(group)
    assert call(*reset, "--to-earliest", "--dry-run").exit_code == 0 and progress(group) == before
    for target, lag in (
        (["--to-earliest"], 10),
        (["--shift-by", "3"], 7),
        (["--to-datetime", "2001-01-01T00:00:00Z"], 10),
        (["--by-duration", "PT0S"], 0),
        (["--to-offset", "99"], 0),
    ):
        assert call(*reset, *target, "--execute").exit_code == 0
        assert progress(group) == [(0, 10 - lag, lag), (1, 10 - lag, lag)], target
    assert call("delete-offsets", group, "--topic", f"{topic}:0", "-y").exit_code == 0
    assert progress(group) == [(1, 10, 0)]
    assert call("delete", group, "-y").exit_code == 0
    assert call("describe", group).exit_code == 3 and call("delete", group, "-y").exit_code == 3

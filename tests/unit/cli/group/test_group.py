"""`kafkalite group …`: what it shows, refuses, asks and sends, and its exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import pytest

from kafkalite.cli.group import in_zookeeper
from kafkalite.cli.group.reset_target import parse_datetime, parse_duration
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.cli.partition.test_partition_commands import call
from tests.unit.client.admin.test_group_admin import (
    committed,
    coordinated_by,
    deleted,
    described,
    fetched,
    listed,
    member,
    offsets_deleted,
)
from tests.unit.client.admin.test_partition_admin import T0, T1
from tests.unit.client.fake_broker import FakeCluster
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session

GONE = TopicPartition("gone", 0)
PROGRESS = """\
GROUP  STATE   TOPIC  PARTITION  COMMITTED OFFSET  END OFFSET  LAG  OWNER  CLIENT HOST
g      Stable  gone           0                 5           -    -  -      -
g      Stable  t              0                40         100   60  m      /10.0.0.1
g      Stable  t              1                 -         100    -  m      /10.0.0.1
"""


@pytest.fixture
def cluster(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Partitions t-0 and t-1 with the offsets 10 to 100; everybody's coordinator is broker 1."""
    coordinated_by(cluster, *[1] * 20)
    cluster.log_starts[T0] = cluster.log_starts[T1] = 10
    monkeypatch.setattr(cluster, "end", lambda _: 100)
    return cluster


def idle(cluster: FakeCluster, offsets: dict[TopicPartition, int], state: str = "Empty") -> None:
    """The group g without members, and what it has committed."""
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", state))
    cluster.script[ApiKey.OFFSET_FETCH].append(fetched("g", offsets))


def sent(cluster: FakeCluster) -> dict[int, int]:
    return {
        each.partition_index: each.committed_offset
        for request in cluster.requests_of(ApiKey.OFFSET_COMMIT)
        for topic in request.topics
        for each in topic.partitions
    }


def test_groups_are_listed(cluster: FakeCluster) -> None:
    answers = {1: listed(("b", "Stable")), 2: listed(("a", "Empty"))}
    cluster.script[ApiKey.LIST_GROUPS].extend([lambda broker, _: answers[broker]] * 4)
    assert call("group", "list").stdout == (
        "GROUP  STATE   PROTOCOL TYPE  COORDINATOR\na      Empty   consumer                 2\nb      Stable  consumer                 1\n"
    )
    assert call("group", "list", "--state", "stable", "-o", "name").stdout == "b\n"


def test_progress_is_described(cluster: FakeCluster) -> None:
    for _ in range(3):
        cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", "Stable", (member("m", T0, T1),)))
        cluster.script[ApiKey.OFFSET_FETCH].append(fetched("g", {T0: 40, GONE: 5}))
    assert call("group", "describe", "g").stdout == PROGRESS
    (_, row, _) = json.loads(call("group", "describe", "g", "-o", "json").stdout)
    assert (row["state"], row["lag"], row["owner"], row["client_id"]) == ("Stable", 60, "m", "c")
    assert call("group", "describe", "g", "--summary").stdout == (
        "GROUP  STATE   MEMBERS  PARTITIONS  LAG  ASSIGNOR  COORDINATOR\n"
        "g      Stable        1           3   60  range               1\n"
    )


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZooKeeper in memory with the old groups g, which has a member, idle, and one that cannot be read."""
    server = MemoryZooKeeper()
    znodes = {
        "/consumers/g/ids/m_1": b'{"subscription":{"t":1}}',
        "/consumers/g/owners/t/0": b"m_1-0",
        "/consumers/g/offsets/t/0": b"30",
        "/consumers/g/offsets/gone/0": b"5",
        "/consumers/idle/offsets/t/1": b"100",
        "/consumers/odd/offsets/t/1": b"x",
    }

    def with_session(connect: str, use: Callable[[Session], Awaitable[None]]) -> None:
        async def run() -> None:
            store = MemoryStore(server)
            await store.start(1)
            for path, data in znodes.items():
                if await store.exists(path) is None:
                    await store.create(path, data, parents=True)
            await use(Session(store))
            await store.close()

        asyncio.run(run())

    monkeypatch.setattr(in_zookeeper, "with_session", with_session)


def test_groups_in_zookeeper_are_listed_beside_those_of_kafka(cluster: FakeCluster, zookeeper: None) -> None:
    answers = {1: listed(("g", "Empty")), 2: listed()}
    cluster.script[ApiKey.LIST_GROUPS].extend([lambda broker, _: answers[broker]] * 2)
    result = call("group", "list", "--in-zookeeper")
    assert result.stdout == (
        "GROUP  STATE   PROTOCOL TYPE  COORDINATOR  KEPT IN\n"
        "g      Empty   consumer                 1  kafka\n"
        "g      Stable  consumer                 -  zookeeper\n"
        "idle   Empty   consumer                 -  zookeeper\n"
    )
    assert result.stderr.startswith("odd in ZooKeeper: malformed consumer offset znode")


def test_progress_in_zookeeper_is_described_beside_that_in_kafka(cluster: FakeCluster, zookeeper: None) -> None:
    for _ in range(2):
        cluster.script[ApiKey.DESCRIBE_GROUPS].extend([described("g"), described("idle", "Dead")])
        cluster.script[ApiKey.OFFSET_FETCH].extend([fetched("g", {T0: 40}), fetched("idle", {})])
    assert call("group", "describe", "g", "idle", "--in-zookeeper").stdout == (
        "GROUP  STATE   TOPIC  PARTITION  COMMITTED OFFSET  END OFFSET  LAG  OWNER  CLIENT HOST  KEPT IN\n"
        "g      Empty   t              0                40         100   60  -      -            kafka\n"
        "g      Stable  gone           0                 5           -    -  -      -            zookeeper\n"
        "g      Stable  t              0                30         100   70  m_1    -            zookeeper\n"
        "idle   Empty   t              1               100         100    0  -      -            zookeeper\n"
    )
    assert call("group", "describe", "g", "idle", "--in-zookeeper", "--summary").stdout == (
        "GROUP  STATE   MEMBERS  PARTITIONS  LAG  ASSIGNOR  COORDINATOR  KEPT IN\n"
        "g      Empty         0           1   60  -                   1  kafka\n"
        "g      Stable        1           2   70  -                   -  zookeeper\n"
        "idle   Empty         0           1    0  -                   -  zookeeper\n"
    )


def test_groups_that_are_not_there_are_not_found(cluster: FakeCluster) -> None:
    idle(cluster, {}, "Dead")
    result = call("group", "describe", "g")
    assert result.exit_code == 3 and "no group g" in result.stderr
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", "Dead"))
    assert call("group", "members", "g").exit_code == 3
    idle(cluster, {})
    result = call("group", "describe", "g")
    assert result.exit_code == 0 and result.stdout == "" and "Empty" in result.stderr


def test_members_are_shown(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.DESCRIBE_GROUPS].extend([described("g", "Stable", (member("m", T0, T1),)), described("g")])
    assert call("group", "members", "g").stdout == (
        "GROUP  MEMBER ID  CLIENT HOST  PARTITIONS\ng      m          /10.0.0.1    t-0,t-1\n"
    )
    assert json.loads(call("group", "members", "g", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], {0: 10, 1: 10}),
        (["--to-latest"], {0: 100, 1: 100}),
        (["--to-offset", "50"], {0: 50, 1: 50}),
        (["--to-offset", "5000"], {0: 100, 1: 100}),
        (["--shift-by", "-25"], {0: 15, 1: 10}),
        (["--shift-by", "70"], {0: 100, 1: 90}),
        (["--to-datetime", "2013-01-01T00:00:00"], {0: 100, 1: 100}),
        (["--by-duration", "PT1H"], {0: 100, 1: 100}),
    ],
)
def test_offsets_are_reset(cluster: FakeCluster, target: list[str], expected: dict[int, int]) -> None:
    idle(cluster, {T0: 40, T1: 20})
    cluster.script[ApiKey.OFFSET_COMMIT].append(committed((T0, 0), (T1, 0)))
    result = call("group", "reset-offsets", "g", "--topic", "t", *target, "--execute")
    assert result.exit_code == 0, result.output
    assert sent(cluster) == expected


def test_a_dry_run_commits_nothing_and_can_be_executed_later(cluster: FakeCluster, tmp_path: Path) -> None:
    idle(cluster, {T0: 40, T1: 20})
    result = call("group", "reset-offsets", "g", "--all-topics", "--shift-by", "1", "--dry-run", "-o", "csv")
    assert result.stdout == "group,topic,partition,committed_offset,new_offset\ng,t,0,40,41\ng,t,1,20,21\n"
    assert sent(cluster) == {}
    file = tmp_path / "plan.csv"
    for content, expected in ((result.stdout, {0: 41, 1: 21}), ("t,1,77\n", {0: 41, 1: 77})):
        file.write_text(content)
        idle(cluster, {})
        cluster.script[ApiKey.OFFSET_COMMIT].append(committed((T0, 0), (T1, 0)))
        assert call("group", "reset-offsets", "g", "--from-file", str(file), "--execute").exit_code == 0
        assert sent(cluster) == expected


def test_nothing_committed_is_nothing_to_reset(cluster: FakeCluster) -> None:
    idle(cluster, {}, "Dead")
    result = call("group", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute")
    assert result.exit_code == 3 and "committed nothing" in result.stderr


def test_some_partitions_of_a_topic(cluster: FakeCluster) -> None:
    idle(cluster, {T0: 40})
    cluster.script[ApiKey.OFFSET_COMMIT].append(committed((T1, 0)))
    assert call("group", "reset-offsets", "g", "--topic", "t:1", "--to-earliest", "--execute").exit_code == 0
    assert sent(cluster) == {1: 10}


@pytest.mark.parametrize("mode", ["--dry-run", "--execute"])
def test_a_group_with_members_is_refused_and_they_are_named(cluster: FakeCluster, mode: str) -> None:
    cluster.script[ApiKey.DESCRIBE_GROUPS].append(described("g", "Stable", (member("m-1"), member("m-2"))))
    result = call("group", "reset-offsets", "g", "--all-topics", "--to-latest", mode)
    assert result.exit_code == 1 and "m-1 at /10.0.0.1, m-2 at" in result.stderr and sent(cluster) == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--topic", "t", "--dry-run"], 2),
        (["--topic", "t", "--to-latest", "--to-offset", "0", "--dry-run"], 2),
        (["--topic", "t", "--to-latest"], 2),
        (["--topic", "t", "--to-latest", "--dry-run", "--execute"], 2),
        (["--to-latest", "--dry-run"], 2),
        (["--topic", "t", "--all-topics", "--to-latest", "--dry-run"], 2),
        (["--topic", "t:x", "--to-latest", "--dry-run"], 2),
        (["--topic", "t", "--to-datetime", "soon", "--dry-run"], 2),
        (["--topic", "t", "--by-duration", "P1M", "--dry-run"], 2),
        (["--topic", "t:7", "--to-latest", "--dry-run"], 3),
        (["--topic", "nope", "--to-latest", "--dry-run"], 3),
        (["--topic", "t:1", "--shift-by", "1", "--dry-run"], 2),
    ],
)
def test_what_cannot_be_reset_is_refused(cluster: FakeCluster, arguments: list[str], code: int) -> None:
    idle(cluster, {T0: 40})
    result = call("group", "reset-offsets", "g", "--timeout", "0.5", *arguments)
    assert result.exit_code == code and result.stdout == "", result.output


@pytest.mark.parametrize("content", ["", "t,0\n", "t,zero,1\n", "t,0,1\nt,0,2\n", "topic,partition\nt,0\n"])
def test_files_without_offsets_are_refused(cluster: FakeCluster, tmp_path: Path, content: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(content)
    result = call("group", "reset-offsets", "g", "--from-file", str(file), "--execute")
    assert result.exit_code == 2 and str(file) in result.stderr.replace("\n", "")


def test_times() -> None:
    assert parse_datetime("1970-01-01T00:00:01.5") == parse_datetime("1970-01-01T01:00:01.500+01:00") == 1500
    assert parse_duration("P1DT1H1M1.5S") == 90_061_500 and parse_duration("pt15m") == 900_000
    for wrong in ("", "P", "PT", "P1DT", "15m", "P999999999999W"):
        with pytest.raises(click.BadParameter):
            parse_duration(wrong)


def test_offsets_are_deleted(cluster: FakeCluster) -> None:
    def delete(*options: str) -> Any:
        cluster.script[ApiKey.OFFSET_FETCH].append(fetched("g", {T0: 40, T1: 20}))
        return call("group", "delete-offsets", "g", *options)

    assert delete("--topic", "t").exit_code == 2, "a script must say yes"
    assert delete("--topic", "t:0", "--dry-run", "-o", "json").exit_code == 0
    assert delete("--topic", "other", "-y").exit_code == 3
    assert cluster.requests_of(ApiKey.OFFSET_DELETE) == []
    cluster.script[ApiKey.OFFSET_DELETE].extend([offsets_deleted((T1, 0)), offsets_deleted((T1, 86))])
    assert delete("--topic", "t:1", "-y").exit_code == 0
    result = delete("--topic", "t:1", "-y")
    assert result.exit_code == 1 and "GROUP_SUBSCRIBED_TO_TOPIC" in result.stderr
    assert [each.partition_index for each in cluster.requests_of(ApiKey.OFFSET_DELETE)[0].topics[0].partitions] == [1]


def test_groups_are_deleted(cluster: FakeCluster) -> None:
    assert call("group", "delete", "g").exit_code == 2 and cluster.requests_of(ApiKey.DELETE_GROUPS) == []
    cluster.script[ApiKey.DELETE_GROUPS].extend([deleted("g"), deleted("g", 68), deleted("g", 69)])
    assert "g deleted" in call("group", "delete", "g", "-y").stderr
    busy = call("group", "delete", "g", "-y")
    assert busy.exit_code == 1 and "has members" in busy.stderr
    assert call("group", "delete", "g", "-y").exit_code == 3

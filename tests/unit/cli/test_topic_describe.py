"""`kafkalite topic describe`: golden tables and JSON, and what --check makes of them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

ALL = """\
TOPIC  PARTITION  LEADER  REPLICAS  ISR    OFFLINE REPLICAS  STATE
t              0       1  1,2,3     1,2    3                 under-replicated
t              1       2  1,2,3     1,2,3  3                 ok
u              0      -1  1,2,3     3      3                 unavailable
"""


def describe(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["topic", "describe", *arguments])


@pytest.fixture
def wounded(cluster: FakeCluster) -> FakeCluster:
    """t-0 lacks a follower, t-1 is well, u-0 has no leader."""
    cluster.brokers[3] = ("fake", 9003)
    cluster.unreachable = {3}
    cluster.topics["u"] = 1
    cluster.leaders[TopicPartition("u", 0)] = -1
    cluster.in_sync = {TopicPartition("t", 0): [1, 2], TopicPartition("u", 0): [3]}
    return cluster


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_table_of_all_partitions(wounded: FakeCluster) -> None:
    result = describe()
    assert result.stdout == ALL and result.exit_code == 0 and result.stderr == ""


def test_only_under_replicated_ones(wounded: FakeCluster) -> None:
    result = describe("--under-replicated")
    assert result.exit_code == 0
    assert lines(result.stdout) == [line for line in lines(ALL) if line[-1] != "ok"]


def test_only_unavailable_ones(wounded: FakeCluster) -> None:
    result = describe("--unavailable")
    assert lines(result.stdout) == [line for line in lines(ALL) if line[-1] not in ("ok", "under-replicated")]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--check"], 7),
        (["--check", "--under-replicated", "t"], 7),
        (["--check", "--unavailable"], 7),
        (["--check", "--unavailable", "t"], 0),
        (["--under-replicated"], 0),
    ],
)
def test_a_check_that_finds_something_is_7(wounded: FakeCluster, arguments: list[str], code: int) -> None:
    assert describe(*arguments).exit_code == code


def test_a_check_of_a_sound_cluster_is_0(cluster: FakeCluster) -> None:
    result = describe("--check", "-o", "json")
    assert result.exit_code == 0 and json.loads(result.stdout) == []


def test_json_has_every_field(wounded: FakeCluster) -> None:
    (found,) = json.loads(describe("u", "-o", "json").stdout)
    assert found == {
        "name": "u",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "is_internal": False,
        "partitions": [
            {
                "partition": 0,
                "leader": -1,
                "leader_epoch": 0,
                "replicas": [1, 2, 3],
                "isr": [3],
                "offline_replicas": [3],
                "under_replicated": True,
                "state": "unavailable",
            }
        ],
    }


def test_an_unknown_topic_is_3(cluster: FakeCluster) -> None:
    assert describe("nope", "--check").exit_code == 3

"""`kafkalite cluster info`: golden table and JSON, also of a cluster that lacks a broker."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

TABLE = """\
ID  HOST  PORT  RACK  ALIVE  IS CONTROLLER  LEADERS  REPLICAS  OUT OF SYNC
 1  fake  9001  r1    yes    yes                  1         2            0
 2  -        -  -     no     no                   0         2            1
"""


@pytest.fixture
def half(cluster: FakeCluster) -> FakeCluster:
    """Broker 2 of two is away: t-0 goes on without it, t-1 has no leader."""
    m = messages.describe_cluster_response
    broker = m.DescribeClusterBroker(broker_id=1, host="fake", port=9001, rack="r1")
    cluster.script[ApiKey.DESCRIBE_CLUSTER].append(
        m.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=[broker])
    )
    cluster.leaders[TopicPartition("t", 1)] = -1
    cluster.in_sync = {TopicPartition("t", 0): [1]}
    return cluster


def info(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "info", *arguments])


def test_the_table(half: FakeCluster) -> None:
    result = info()
    assert result.exit_code == 0 and result.stdout == TABLE
    assert result.stderr == "2 partitions of 1 topics: 2 under-replicated, 1 unavailable\n"


def test_json(half: FakeCluster) -> None:
    (found,) = json.loads(info("-o", "json").stdout)
    assert found["brokers"][1] == {
        "id": 2,
        "host": None,
        "port": None,
        "rack": None,
        "alive": False,
        "is_controller": False,
        "leaders": 0,
        "replicas": 2,
        "out_of_sync": 1,
    }
    assert {name: value for name, value in found.items() if name != "brokers"} == {
        "cluster_id": "c",
        "controller_id": 1,
        "topics": 1,
        "partitions": 2,
        "under_replicated_partitions": 2,
        "unavailable_partitions": 1,
    }


def test_names(half: FakeCluster) -> None:
    assert info("-o", "name").stdout == "1\n2\n"


def test_a_cluster_that_is_not_there_is_5(cluster: FakeCluster) -> None:
    cluster.unreachable = {1, 2}
    assert info("--timeout", "0.2").exit_code == 5

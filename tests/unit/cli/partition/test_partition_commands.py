"""`kafkalite partition` and `leader elect`: what they show, ask and send, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.admin.test_partition_admin import T0, T1, altered, created, elected
from tests.unit.client.fake_broker import FakeCluster

PLAN = """\
TOPIC  PARTITION  REPLICAS  TARGET  ADDING  REMOVING
t              0  1,2       3,2     3       1
t              1  1,2       2,1     -       -
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def described(cluster: FakeCluster) -> FakeCluster:
    """Brokers 1 to 3; all replicas on 1 and 2."""
    m = messages.describe_cluster_response
    brokers = [m.DescribeClusterBroker(broker_id=number, host="fake", port=9000 + number) for number in (1, 2, 3)]
    answer = m.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers)
    cluster.script[ApiKey.DESCRIBE_CLUSTER].extend([answer] * 4)
    return cluster


def sent(cluster: FakeCluster) -> list[Any]:
    return [
        (topic.name, partition.partition_index, partition.replicas)
        for request in cluster.requests_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        for topic in request.topics
        for partition in topic.partitions
    ]


def test_a_plan_is_shown_and_nothing_sent(described: FakeCluster) -> None:
    result = call("partition", "reassign", "execute", "t-0=3,2", "t-1=2,1", "--dry-run")
    assert result.exit_code == 0 and result.stdout == PLAN and sent(described) == []


def test_a_script_must_say_yes(described: FakeCluster) -> None:
    result = call("partition", "reassign", "execute", "t-0=3,2")
    assert result.exit_code == 2 and "--yes" in result.stderr and sent(described) == []


def test_moves_begin(described: FakeCluster) -> None:
    described.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0), (T1, 0)))
    result = call("partition", "reassign", "execute", "t-0=3,2", "t-1=2,1", "--yes", "-o", "json")
    assert result.exit_code == 0 and "2 moves begun" in result.stderr
    assert sent(described) == [("t", 0, [3, 2]), ("t", 1, [2, 1])]
    assert json.loads(result.stdout)[0] == {
        "topic": "t",
        "partition": 0,
        "replicas": [1, 2],
        "target": [3, 2],
        "adding": [3],
        "removing": [1],
    }


def test_moves_are_read_from_a_file_of_kafkas_tools(described: FakeCluster, tmp_path: Path) -> None:
    described.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0)))
    file = tmp_path / "moves.json"
    move = {"topic": "t", "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))
    assert call("partition", "reassign", "execute", "--file", str(file), "-y").exit_code == 0
    assert sent(described) == [("t", 0, [3, 1])]
    file.write_text('{"partitions": [{"topic": "t"}]}')
    assert call("partition", "reassign", "execute", "--file", str(file), "-y").exit_code == 2


def test_a_file_without_moves_is_done_at_once(described: FakeCluster, tmp_path: Path) -> None:
    """What `plan --save` writes of topics that lie well already; it was complained of as if no file had been given."""
    file, back = tmp_path / "moves.json", tmp_path / "back.json"
    file.write_text('{"version": 1, "partitions": []}')
    for arguments in (
        ("execute", "-y", "--save-current", str(back)),
        ("execute", "--dry-run"),
        ("verify",),
        ("cancel",),
    ):
        result = call("partition", "reassign", *arguments, "--file", str(file))
        assert result.exit_code == 0 and f"{file} has no moves: there is nothing to do" in result.stderr
    assert described.requests == [] and json.loads(back.read_text())["partitions"] == []
    assert call("partition", "reassign", "execute", "-y").exit_code == 2


def test_waiting_ends_when_nothing_moves(described: FakeCluster) -> None:
    described.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0)))
    described.script[ApiKey.LIST_PARTITION_REASSIGNMENTS].extend([moving(), nothing()])
    result = call("partition", "reassign", "execute", "t-0=3,2", "-y", "--wait")
    assert result.exit_code == 0 and "1 move done" in result.stderr


def test_waiting_ends_with_its_time(described: FakeCluster) -> None:
    described.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0)))
    described.script[ApiKey.LIST_PARTITION_REASSIGNMENTS].extend([moving()] * 20)
    result = call("partition", "reassign", "execute", "t-0=3,2", "-y", "--wait", "--timeout", "0.3")
    assert result.exit_code == 5 and "t-0" in result.stderr


def test_moves_are_cancelled(described: FakeCluster) -> None:
    described.brokers[3] = ("fake", 9003)
    described.script[ApiKey.LIST_PARTITION_REASSIGNMENTS].extend([moving(), nothing(), nothing()])
    described.script[ApiKey.ALTER_PARTITION_REASSIGNMENTS].append(altered((T0, 0)))
    described.script[ApiKey.DESCRIBE_CONFIGS].extend([throttled] * 4)
    described.script[ApiKey.INCREMENTAL_ALTER_CONFIGS].extend([settings_altered] * 4)
    result = call("partition", "reassign", "cancel", "t-0", "-y")
    assert result.exit_code == 0 and "1 move cancelled" in result.stderr and "throttles taken away" in result.stderr
    assert sent(described) == [("t", 0, None)]
    changes = [
        each for request in described.requests_of(ApiKey.INCREMENTAL_ALTER_CONFIGS) for each in request.resources
    ]
    assert {each.resource_name for each in changes} == {"t", "1", "2", "3"}
    assert {setting.config_operation for each in changes for setting in each.configs} == {1}
    none = call("partition", "reassign", "cancel", "t-0", "-y")
    assert none.exit_code == 3 and "t-0 is not being moved" in none.stderr


def throttled(_: int, request: Any) -> Any:
    m = messages.describe_configs_response
    entry = m.DescribeConfigsResourceResult(name="x", value="1", config_source=2)
    results = [m.DescribeConfigsResult(configs=[entry]) for _ in request.resources]
    return m.DescribeConfigsResponse(results=results)


def settings_altered(_: int, request: Any) -> Any:
    m = messages.incremental_alter_configs_response
    return m.IncrementalAlterConfigsResponse(responses=[m.AlterConfigsResourceResponse() for _ in request.resources])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["t-0=9,1", "-y"], 3),
        (["t-9=1,2", "-y"], 3),
        (["nope-0=1,2", "-y"], 3),
        (["t=1"], 2),
        (["t-0=x"], 2),
        (["t-0"], 2),
        ([], 2),
    ],
)
def test_what_cannot_be_moved_is_refused(described: FakeCluster, arguments: list[str], code: int) -> None:
    assert call("partition", "reassign", "execute", *arguments).exit_code == code
    assert sent(described) == []


def moving() -> Any:
    m = messages.list_partition_reassignments_response
    one = m.OngoingPartitionReassignment(
        partition_index=0, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
    )
    return m.ListPartitionReassignmentsResponse(topics=[m.OngoingTopicReassignment(name="t", partitions=[one])])


def nothing() -> Any:
    return messages.list_partition_reassignments_response.ListPartitionReassignmentsResponse()


def test_moves_that_go_on_are_shown(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.LIST_PARTITION_REASSIGNMENTS].extend([moving(), nothing(), nothing()])
    assert call("partition", "reassign", "list").stdout == (
        "TOPIC  PARTITION  REPLICAS  ADDING REPLICAS  REMOVING REPLICAS\nt              0  3,2,1     3                1\n"
    )
    none = call("partition", "reassign", "list", "t-1")
    assert none.exit_code == 0 and none.stdout == "" and "nothing" in none.stderr
    assert json.loads(call("partition", "reassign", "list", "-o", "json").stdout) == []


def test_partitions_are_added(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.CREATE_PARTITIONS].extend([created(("t", 0)), created(("t", 0)), created(("t", 37))])
    assert "t could have 4" in call("partition", "add", "t", "4", "--dry-run").stderr
    assert "t has 4" in call("partition", "add", "t", "4", "--replica-assignment", "1:2,2:1").stderr
    assert call("partition", "add", "t", "1").exit_code == 1
    first, second, _ = cluster.requests_of(ApiKey.CREATE_PARTITIONS)
    assert first.validate_only and not second.validate_only
    assert [each.broker_ids for each in second.topics[0].assignments] == [[1, 2], [2, 1]]


def test_preferred_leaders_are_elected(cluster: FakeCluster) -> None:
    cluster.script[ApiKey.ELECT_LEADERS].extend([elected((T0, 84), (T1, 0)), elected()])
    assert call("leader", "elect", "t-0", "t-1").stdout == (
        "TOPIC  PARTITION  ELECTED\nt              0  no\nt              1  yes\n"
    )
    result = call("leader", "elect", "--all")
    assert result.exit_code == 0 and result.stdout == "" and "no election was needed" in result.stderr


def test_a_dry_run_shows_who_is_not_led_as_preferred(cluster: FakeCluster) -> None:
    assert call("leader", "elect", "--all", "--dry-run").stdout == (
        "TOPIC  PARTITION  LEADER  PREFERRED LEADER  ISR\nt              1       2                 1  1,2\n"
    )
    assert cluster.requests_of(ApiKey.ELECT_LEADERS) == []


def test_unclean_elections_need_consent(cluster: FakeCluster) -> None:
    assert call("leader", "elect", "t-0", "--unclean").exit_code == 2
    cluster.script[ApiKey.ELECT_LEADERS].append(elected((T0, 0)))
    assert call("leader", "elect", "t-0", "--unclean", "-y").exit_code == 0
    (request,) = cluster.requests_of(ApiKey.ELECT_LEADERS)
    assert request.election_type == 1


@pytest.mark.parametrize("arguments", [[], ["--all", "t-0"], ["what"]])
def test_usage_of_elections(cluster: FakeCluster, arguments: list[str]) -> None:
    assert call("leader", "elect", *arguments).exit_code == 2

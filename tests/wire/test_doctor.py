"""`kafkalite doctor` for a broker that runs, and for one whose ids and directories are mixed up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.cli.main import main
from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from zk import paths
from zk.znodes.topics import TopicAssignment

pytestmark = pytest.mark.wire


def examine(cluster: LocalCluster, *arguments: str) -> list[dict[str, Any]]:
    """The rows of doctor for broker 1's settings and the whole cluster."""
    settings = cluster.directory / "broker-1.properties"
    common = ["-b", cluster.bootstrap_servers, "--config", str(settings), "-o", "json"]
    result = CliRunner().invoke(main, ["doctor", *common, *arguments])
    assert result.exit_code in (0, 7), result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert (result.exit_code == 7) == any(row["status"] == "problem" for row in found)
    return found


def found_of(rows: list[dict[str, Any]], check: str) -> list[str]:
    return [row["found"] for row in rows if row["check"] == check]


def test_a_broker_that_runs(cluster: LocalCluster) -> None:
    rows = examine(cluster)
    port = cluster.broker(1).port
    assert found_of(rows, "ports") == [f"PLAINTEXT://127.0.0.1:{port} is served by a broker"]
    (quorum,) = found_of(rows, "zookeeper quorum")
    assert cluster.zookeeper_connect in quorum and "standalone" in quorum, "ZooKeeper is where the settings say"
    assert found_of(rows, "brokers' clocks") == ["those of 3 brokers agree with ZooKeeper's"]
    assert found_of(rows, "jute.maxbuffer") == ["servers take requests of 4194304 bytes, as brokers count on"]
    (sizes,) = found_of(rows, "znode sizes")
    assert "of 4194304 (jute.maxbuffer)" in sizes
    (listeners,) = found_of(rows, "advertised listeners")[1:]
    assert listeners.startswith("every broker answers where it says") and str(port) in listeners
    disks = found_of(rows, "brokers' disks")
    assert disks and all("log directories have room" in each or "GiB free" in each for each in disks), disks
    (directory,) = found_of(rows, "log directories")
    assert directory.startswith(f"{cluster.broker(1).log_dir}: ") and "GiB free" in directory
    assert len(found_of(rows, "transactions")) >= 1 <= len(found_of(rows, "groups"))
    assert not [row for row in rows if row["check"] in ("transactions", "groups") and row["status"] == "skipped"]
    (files,) = found_of(rows, "open files")
    assert "limit" in files


def test_another_brokers_directory(cluster: LocalCluster) -> None:
    rows = examine(cluster, "--only", "machine", "-P", "broker.id=2")
    assert f"{cluster.broker(1).log_dir} belongs to broker 1, not to 2" in found_of(rows, "log directories")


def test_a_taken_port(cluster: LocalCluster, tmp_path: Path) -> None:
    zookeeper_port = cluster.zookeeper_connect.rpartition(":")[2]
    rows = examine(
        cluster, "--only", "machine", "-P", f"listeners=PLAINTEXT://127.0.0.1:{zookeeper_port}", "--timeout", "3"
    )
    assert found_of(rows, "ports") == [
        f"PLAINTEXT://127.0.0.1:{zookeeper_port} is taken by a program that is no broker"
    ]


def test_znodes_that_disagree_are_repaired(cluster: LocalCluster) -> None:
    """First it only says what it would do."""
    orphan, stray = paths.topic_config("orphan"), paths.partition("repaired", 7)
    with cluster.facts() as facts, SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("repaired", 1, 3)])
        facts.client.create(orphan, b'{"version": 1, "config": {"retention.ms": "1"}}')
        facts.client.create(f"{stray}/state", b"{}", makepath=True)
        common = ["doctor", "-b", cluster.bootstrap_servers, "--zookeeper", cluster.zookeeper_connect]
        told = CliRunner().invoke(main, [*common, "--fix", "--dry-run"])
        assert told.exit_code == 0, told.output
        assert orphan in told.output and stray in told.output and "2 repairs would be made" in told.output
        assert facts.client.exists(orphan) and facts.client.exists(stray)
        done = CliRunner().invoke(main, [*common, "--fix", "--yes"])
        assert done.exit_code == 0, done.output
        assert not facts.client.exists(orphan) and not facts.client.exists(stray)
        admin.delete_topics(["repaired"])
    assert found_of(examine(cluster, "--only", "znodes"), "znodes") == ["those of topics, deletions and moves agree"]


def test_a_move_that_hangs_is_cancelled_and_a_partition_of_a_later_epoch_is_led_again() -> None:
    """A topic's znode says that it moves to a broker that there is not: a controller is elected that knows of it, which then cancels it."""
    with LocalCluster(brokers=1) as lone, lone.facts() as facts:
        fix = ["doctor", "-b", lone.bootstrap_servers, "--zookeeper", lone.zookeeper_connect, "--fix", "--yes"]
        with SyncAdmin(bootstrap_servers=lone.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("hanging", 1, 1)])
        wait_until(lambda: facts.fully_replicated("hanging"), "the topic", 30)
        whole = TopicAssignment.decode(facts.client.get(paths.topic("hanging"))[0])
        moving = replace(whole, partitions={0: (1, 99)}, adding={0: (99,)}, removing={0: ()})
        facts.client.set(paths.topic("hanging"), moving.encode())
        for words in ("run it again", "1 repair made"):
            done = CliRunner().invoke(main, fix)
            assert done.exit_code == 0, done.output
            assert "hanging-0 move to broker 99" in done.output and words in done.output, done.output
            wait_until(lambda: facts.controller() >= 0, "a controller", 30)

        def cancelled() -> bool:
            now = TopicAssignment.decode(facts.client.get(paths.topic("hanging"))[0])
            return now.partitions[0] == (1,) and not now.adding and not now.removing

        wait_until(cancelled, "the end of the move", 30)
        offline_after_the_way_back_from_kraft(facts, lone, fix)


def offline_after_the_way_back_from_kraft(facts: ClusterFacts, lone: LocalCluster, fix: list[str]) -> None:
    """KAFKA-20488: no controller elects a leader for a partition whose state a later one wrote, until doctor raises `/controller_epoch`."""
    path = paths.partition_state("hanging", 0)
    offline = replace(facts.state("hanging", 0), leader=-1, controller_epoch=1001)
    facts.client.set(path, offline.encode())
    before = facts.client.get(paths.CONTROLLER_EPOCH)[0]
    facts.client.delete(paths.CONTROLLER)
    wait_until(lambda: facts.client.get(paths.CONTROLLER_EPOCH)[0] != before, "another controller", 30)
    assert facts.state("hanging", 0) == offline
    done = CliRunner().invoke(main, fix)
    assert done.exit_code == 0, done.output
    assert "hanging-0 were written in controller epochs up to 1001" in done.output, done.output
    wait_until(lambda: facts.state("hanging", 0).leader == 1, "a leader", 30)
    assert facts.state("hanging", 0).controller_epoch >= 1002
    with SyncAdmin(bootstrap_servers=lone.bootstrap_servers) as admin:
        wait_until(
            lambda: admin.describe_topics(["hanging"])[0].partitions[0].leader == 1, "the leader in metadata", 30
        )

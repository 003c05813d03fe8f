"""`kafkalite cluster up --restart-after`: who is told of, who is started again, and when."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from kafkalite.cli.cluster.supervisor import Supervisor
from kafkalite.local.broker_process import BrokerProcess
from kafkalite.local.cluster import LocalCluster

STAND_IN = """\
import pathlib, sys, time
print("[KafkaServer id=7] started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A process that only says what a broker says."""
    process = BrokerProcess(7, tmp_path, {}, [sys.executable, "-c", STAND_IN])
    process.start()
    process.wait_started(20)
    yield process
    process.close()


@dataclass
class EndedProcess:
    returncode: int


@dataclass
class StoppedServer:
    """A ZooKeeper server that has ended."""

    number: int
    process: EndedProcess
    running: bool = False


@dataclass
class FakeEnsemble:
    members: tuple[StoppedServer, ...]


@dataclass
class FakeCluster:
    """What a supervisor uses of a LocalCluster."""

    brokers: dict[int, BrokerProcess]
    ensemble: FakeEnsemble


def cluster_of(broker: BrokerProcess, *servers: StoppedServer) -> LocalCluster:
    return cast(LocalCluster, FakeCluster({broker.id: broker}, FakeEnsemble(servers)))


def test_nothing_is_told_of_what_runs(broker: BrokerProcess) -> None:
    supervisor = Supervisor(cluster_of(broker), 5.0)
    assert list(supervisor.check_processes(0.0)) == []


def test_a_dead_broker_is_told_once_and_started_in_time(broker: BrokerProcess) -> None:
    supervisor = Supervisor(cluster_of(broker), 5.0)
    broker.kill()
    assert list(supervisor.check_processes(10.0)) == [
        "broker 7 ended with status -9; its last lines:",
        "    [KafkaServer id=7] started",
    ]
    assert list(supervisor.check_processes(14.9)) == [] and not broker.running
    assert list(supervisor.check_processes(15.0)) == ["broker 7 is started again"]
    assert broker.running
    assert list(supervisor.check_processes(15.1)) == []


def test_without_a_time_it_stays_away(broker: BrokerProcess) -> None:
    supervisor = Supervisor(cluster_of(broker), None)
    broker.kill()
    assert len(list(supervisor.check_processes(0.0))) == 2
    assert list(supervisor.check_processes(1e9)) == [] and not broker.running


def test_a_dead_zookeeper_server_is_only_told(broker: BrokerProcess) -> None:
    server = StoppedServer(2, EndedProcess(-9))
    supervisor = Supervisor(cluster_of(broker, server), 5.0)
    assert list(supervisor.check_processes(0.0)) == ["ZooKeeper server 2 ended with status -9"]
    assert list(supervisor.check_processes(99.0)) == []

"""A killed broker whose end a process of its machine saw is gone from ZooKeeper long before its session times out."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.storage.session_file import FILE_NAME

pytestmark = pytest.mark.system

GUARDED = (sys.executable, "-m", "kafkalite", "broker", "--guard", "--config")
SESSION_S = 60
WELL_BEFORE_S = 30
SETTINGS = {
    "kafkalite.failover.detection": "evidence",
    "zookeeper.session.timeout.ms": str(SESSION_S * 1000),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, properties=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def facts(cluster: LocalCluster) -> Iterator[ClusterFacts]:
    with ClusterFacts(cluster.zookeeper_connect) as asked:
        yield asked


def took_s(action: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    action()
    return time.monotonic() - begun_s


def test_a_cluster_on_this_machine_ends_the_session_of_a_broker_that_was_killed(
    cluster: LocalCluster, facts: ClusterFacts
) -> None:
    heard: list[str] = []
    cluster.tell_death = heard.append
    controller = facts.controller()
    cluster.kill(controller)
    wait_until(lambda: facts.controller() not in (controller, -1), "another broker is the controller", WELL_BEFORE_S)
    assert controller not in facts.brokers()
    wait_until(lambda: bool(heard), "the user hears of it", 20)
    assert heard[0].startswith(f"broker {controller} ended without a clean stop; its ZooKeeper session 0x")

    assert took_s(lambda: cluster.start_broker(controller)) < WELL_BEFORE_S
    assert cluster.stop(controller) == 0
    assert not (cluster.broker(controller).log_dir / FILE_NAME).exists()
    cluster.start_broker(controller)
    assert len(heard) == 1, "nothing was left behind by a clean stop"


def test_a_guard_ends_the_session_of_its_broker_and_a_start_that_of_its_predecessor(
    cluster: LocalCluster, facts: ClusterFacts, tmp_path: Path
) -> None:
    broker = BrokerProcess(9, tmp_path, {"zookeeper.connect": cluster.zookeeper_connect, **SETTINGS}, GUARDED)
    file = broker.log_dir / FILE_NAME
    try:
        broker.start()
        broker.wait_started()
        assert file.stat().st_mode & 0o777 == 0o600
        os.kill(child_of(broker.pid), signal.SIGKILL)
        wait_until(lambda: 9 not in facts.brokers(), "the registration of the guarded broker is gone", WELL_BEFORE_S)
        wait_until(lambda: broker.exit_status is not None, "the guard ends", 20)
        assert broker.exit_status == 128 + signal.SIGKILL
        assert "its ZooKeeper session 0x" in broker.log_tail(1) and broker.log_tail(1).endswith("was ended")

        broker.start()
        broker.wait_started()
        broker.kill()  # the guard, and with it the broker
        assert 9 in facts.brokers()
        assert took_s(lambda: (broker.start(), broker.wait_started())) < WELL_BEFORE_S
        assert broker.stop() == 0 and not file.exists()
        wait_until(lambda: 9 not in facts.brokers(), "the registration is gone", 20)
    finally:
        broker.close()


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)

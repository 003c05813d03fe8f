"""The page from-apache-kafka.md, block by block as an operator would take them: two brokers of Apache Kafka become ours, and go back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from deploy.docs.blocks import SHOWN_ONLY, blocks_of
from deploy.docs.staging import ROOT
from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka
from tests.peers.operated_machines import OperatedMachines, Operator, programs_of_3_9
from tests.peers.page_usage import check_commands

pytestmark = [pytest.mark.peer, pytest.mark.timeout(1800)]

PAGE: Final = ROOT / "deploy/docs/pages/howto/from-apache-kafka.md"
BROKERS: Final = (1, 2)
STEP: Final = "enable --now kafkalite-broker'\n"
ROLLBACK: Final = "migrate rollback plan.toml --stop-command 'ssh"
SETTINGS: Final = {
    "inter.broker.protocol.version": "3.9",
    "log.message.format.version": "3.0",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "zookeeper.session.timeout.ms": "30000",
}


def test_the_page_says_commands_that_there_are() -> None:
    assert check_commands(blocks_of(PAGE.read_text("utf-8"))) > 10


def test_the_blocks_there_and_back_in_their_order(tmp_path: Path, long: bool) -> None:
    if not long:
        pytest.skip("Java machines start one after the other: with --long")
    apache_kafka.fetch()
    with LocalCluster(brokers=0, directory=tmp_path / "zookeeper", start_timeout_s=240) as cluster:
        machines = OperatedMachines(tmp_path / "machines", BROKERS, cluster.zookeeper_connect, programs_of_3_9("kafka"))
        try:
            for each in BROKERS:
                machines.write_broker(each, SETTINGS)
            for each in BROKERS:
                assert machines.run(f"ssh kafka-{each} systemctl enable --now kafka")[0] == 0
            take_blocks(Operator(PAGE, machines))
        finally:
            machines.close()


def take_blocks(operator: Operator, check_replaced: Callable[[], None] = lambda: None) -> None:
    """Take the blocks for systemd, while Apache Kafka is starting. `check_replaced` is called when all brokers are ours."""
    operator.machines.await_brokers(len(BROKERS))
    operator.run("doctor --config", 0, 7)  # what it finds of this machine is not what is tested
    operator.run("migrate check")
    operator.run("scp deploy/systemd/kafkalite-broker.service")
    with operator.probing():
        told = operator.run("--dry-run")
        assert "broker 1 becomes kafkalite" in told or "broker 2 becomes kafkalite" in told
        operator.step(STEP, "is kafkalite", "is kafkalite")
        assert "all steps of the plan are done" in operator.run(STEP, 3)
        check_replaced()
        operator.run("leader elect --all")
        operator.step(ROLLBACK, "is Apache Kafka", "is Apache Kafka")
        assert "no broker was replaced" in operator.run(ROLLBACK, 3)
    assert "there once, in order" in operator.run("evidence after night-1")
    left = [each.text for each in operator.blocks if each not in operator.taken and each.language != SHOWN_ONLY]
    assert left and all("docker" in each for each in left), "those of tests/peers/test_swap_containers.py"

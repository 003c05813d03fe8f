"""The page to-kafka-4.md, block by block as an operator would take them, there and back, on three controllers and two brokers.

With `--long`, because a dozen Java machines start one after the other; without it the page's script and settings only.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from deploy.docs.blocks import blocks_of
from deploy.docs.staging import ROOT
from kafkalite.config.properties import parse_properties
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.conftest import foreign_program
from tests.peers import apache_kafka, kraft
from tests.peers.kraft_machines import FACTORS, PATIENCE, SETTINGS, describe, fill, properties_text
from tests.peers.operated_machines import START, OperatedMachines, Operator, programs_of_3_9
from tests.peers.page_usage import check_commands

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3000)]

PAGE: Final = ROOT / "deploy/docs/pages/howto/to-kafka-4.md"
BACK: Final = PAGE.read_text("utf-8").partition("\n## Back\n")[0].count("\n")
"""The line where the blocks of the way back begin."""
BROKERS: Final = (1, 2)
CONTROLLERS: Final = (3001, 3002, 3003)
STEP: Final = "kraft step kraft.toml --stop"
IS_MIGRATING: Final = "is a server in migration mode"
IS_ON_KRAFT: Final = "is a server on KRaft, out of migration mode"


def test_the_page_says_commands_that_there_are() -> None:
    assert check_commands(blocks_of(PAGE.read_text("utf-8"))) > 15


class Night(Operator):
    """The page's operator, before whom a cluster of ours runs."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        newer = kraft.fetch()
        features = "org.apache.kafka.tools.FeatureCommand"
        programs = programs_of_3_9("kafka-3.9") | {
            f"kafka-4.1/{START}": apache_kafka.class_command(newer, "kafka.Kafka", "512m", "INFO", []),
            "kafka-4.1/bin/kafka-features.sh": apache_kafka.class_command(newer, features, "256m", "WARN", []),
        }
        super().__init__(PAGE, OperatedMachines(directory, (*BROKERS, *CONTROLLERS), zookeeper, programs))
        self.servers = self.machines.map_addresses(",".join(f"kafka-{each}:9092" for each in BROKERS))
        folder = "/etc/systemd/system/kafkalite-broker.service"
        for server in BROKERS:
            for name, path in (
                ("kafkalite-broker.service", ""),
                ("from-apache-kafka.conf", ".d/from-apache-kafka.conf"),
            ):
                self.machines.write(server, folder + path, (ROOT / "deploy/systemd" / name).read_text())
            self.machines.write_broker(server, SETTINGS | dict.fromkeys(FACTORS, str(len(BROKERS))))

    def place(self, wanted: str, block: str = "kraft check --controllers $CONTROLLERS\n") -> None:
        """Run a check until nothing stands against what it checks; it begins with where the cluster is."""
        looks = itertools.count(1)

        def is_well() -> bool:
            code, told = self.machines.run(self.find(block).text)
            for late in re.findall(r"controller (\d+): it is not registered", told):
                if next(looks) % PATIENCE == 0:  # KAFKA-20247, as the check says; on a busy machine only
                    self.machines.run(f"ssh kafka-{late} systemctl restart kafka")
            return code == 0 and wanted in told.splitlines()[1]

        wait_until(is_well, f"{wanted}, and nothing against it", 300)

    def start_ours(self) -> None:
        """Start brokers of ours, and fill the cluster."""
        for each in BROKERS:
            assert self.machines.run(f"ssh kafka-{each} systemctl enable --now kafkalite-broker")[0] == 0
        self.machines.await_brokers(len(BROKERS))
        fill(self.servers, len(BROKERS))

    def swap(self) -> None:
        """Replace brokers of ours by those of Apache Kafka 3.9."""
        self.run("cat > start-form")
        self.run("plan swap.toml")
        self.step("step swap.toml", *["is Apache Kafka"] * len(BROKERS))
        pids = self.pids()
        self.run("KAFKALITE_FORM=zookeeper ./start-form; done")
        assert self.pids() == pids, "what runs goes on"

    def pids(self) -> list[str]:
        return [(self.machines.machine(each) / "run/kafka.pid").read_text() for each in BROKERS]

    def start_controllers(self) -> None:
        """Plan the move, and start the quorum."""
        self.run("kraft plan kraft.toml")
        self.run("settings migration server.properties")
        (of_page,) = (parse_properties(each.text) for each in self.blocks if each.language == "properties")
        given = of_page | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": SETTINGS["super.users"],
            "default.replication.factor": str(len(BROKERS)),
            "min.insync.replicas": SETTINGS["min.insync.replicas"],
            "controller.quorum.election.timeout.ms": "5000",  # the machine may be busy
            "controller.quorum.fetch.timeout.ms": "10000",
        }
        (self.machines.here / "controller.properties").write_text(properties_text(given))
        self.run("controller.properties |")
        self.run("CLUSTER_ID=$(")
        self.place("controllers wait for the brokers")


@contextmanager
def nights(directory: Path) -> Iterator[tuple[Night, LocalCluster]]:
    apache_kafka.fetch()
    with LocalCluster(brokers=0, directory=directory / "zookeeper", start_timeout_s=240) as cluster:
        found = Night(directory / "machines", cluster.zookeeper_connect)
        try:
            found.start_ours()
            yield found, cluster
        finally:
            found.machines.close()


@pytest.fixture
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if not request.config.getoption("--long"):
        pytest.skip("a dozen Java machines start one after the other: with --long")
    return tmp_path


def test_the_blocks_of_the_way_there_in_their_order(directory: Path) -> None:
    """From brokers of ours to 4.1; ZooKeeper is gone at the end, and all else is as it was."""
    with nights(directory) as (night, cluster):
        was = describe(night.servers)
        night.swap()
        check_unit(night.machines.machine(1))
        night.start_controllers()
        with night.reading(night.servers):
            night.step(STEP, IS_MIGRATING, IS_MIGRATING)
            night.place("metadata is copied")
            night.step(STEP, IS_ON_KRAFT, IS_ON_KRAFT)
            night.place("brokers are restarted on KRaft", "--before final")
            assert "give --no-way-back" in night.run(STEP, 2)
            night.step("--no-way-back", *[IS_ON_KRAFT] * len(CONTROLLERS))
            assert cluster.ensemble is not None
            asyncio.run(cluster.ensemble.kill(1))
            night.place("finalized", "--before kafka-4")
            night.step(STEP, *["is a server of Apache Kafka 4"] * (len(CONTROLLERS) + len(BROKERS)))
            assert "all steps of the plan are done" in night.run(STEP, 3)
        assert "there once, in order" in night.run("evidence after night-1")
        assert describe(night.servers) == was
        night.run("kafka-features.sh")
        left = [each.line for each in night.blocks if each not in night.taken and each.language == "sh"]
        assert min(left) > BACK, "all but the way back is taken"


def test_the_script_starts_each_form_by_its_settings(tmp_path: Path) -> None:
    """Without a cluster: programs tell their release and settings. systemd takes the unit."""
    stubs = {f"kafka-{each}/{START}": ["sh", "-c", f'echo {each}; cat "$0"; exec sleep 300'] for each in ("3.9", "4.1")}
    page = Operator(PAGE, OperatedMachines(tmp_path / "machines", (*BROKERS, *CONTROLLERS), "127.0.0.1:1", stubs))
    machines = page.machines
    try:
        for each in BROKERS:
            machines.write_broker(each, {})
        page.run("cat > start-form")
        assert machines.run("ssh kafka-1 KAFKALITE_FORM=migration ./start-form")[0], "no settings of that form yet"
        page.run("settings migration server.properties")
        template = next(each.text for each in page.blocks if each.language == "properties")
        (machines.here / "controller.properties").write_text(template)
        page.run("controller.properties |")
        for server, form, wanted in (
            (1, "zookeeper", "3.9\nbroker.id=1\n"),
            (1, "migration", "3.9\nbroker.id=1\n"),
            (1, "kraft", "3.9\nprocess.roles=broker\nnode.id=1\n"),
            (1, "kafka-4", "4.1\nprocess.roles=broker\nnode.id=1\n"),
            (3002, "migration", "3.9\nprocess.roles=controller\nnode.id=3002\n"),
            (3002, "kraft", "3.9\nprocess.roles=controller\nnode.id=3002\n"),
        ):
            log = machines.machine(server) / "kafka.log"
            log.unlink(missing_ok=True)
            assert machines.run(f"ssh kafka-{server} KAFKALITE_FORM={form} ./start-form") == (0, "")
            wait_until(lambda log=log, wanted=wanted: wanted in log.read_text(), f"{form} of {server}", 30)  # type: ignore[misc]
            assert ("zookeeper.connect=" in log.read_text()) == (form in ("zookeeper", "migration")), log.read_text()
            assert machines.run(f"ssh kafka-{server} systemctl stop kafka") == (0, "")
        check_unit(machines.machine(1))
    finally:
        machines.close()


def check_unit(machine: Path) -> None:
    """systemd takes the unit with its drop-in."""
    program = foreign_program("systemd-analyze", "systemd")
    unit = machine / "etc/systemd/system/kafka.service"
    done = subprocess.run([program, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_blocks_of_the_way_back_in_their_order(directory: Path) -> None:
    """From brokers on KRaft to migration mode, to ZooKeeper, to brokers of ours."""
    with nights(directory) as (night, _):
        was = describe(night.servers)
        night.swap()
        night.start_controllers()
        with night.reading(night.servers):
            night.step(STEP, IS_MIGRATING, IS_MIGRATING, IS_ON_KRAFT, IS_ON_KRAFT)
            night.step("kraft rollback", IS_MIGRATING, IS_MIGRATING)
            assert "stop the controllers, then kafkalite migrate kraft release" in night.run("kraft rollback", 7)
            night.run("kraft release")
            night.step("kraft rollback", *["is a server on ZooKeeper"] * len(BROKERS))
            assert "no server has taken another form by this plan" in night.run("kraft rollback", 3)
            night.run("rm -r /var/lib/kafka-controller")
            night.run("plan back.toml")
            night.step("step back.toml", *["is kafkalite"] * len(BROKERS))
        assert "there once, in order" in night.run("evidence after night-1")
        assert describe(night.servers) == was
        assert all(each in night.taken for each in night.blocks if each.line > BACK)

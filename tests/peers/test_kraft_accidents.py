"""What goes wrong on the way to KRaft, on a live cluster: the tool is killed in a step, partitions are left in a later epoch, and all of it
with SASL and TLS between servers. With `--long`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.cli.main import main
from kafkalite.cli.migrate.kraft.forms import Form
from kafkalite.cli.migrate.sequence import Act
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from tests.certificates import Authority
from tests.peers.kraft_machines import CONTROLLER, Machines, machines, move
from tests.peers.probed import check_evidence, loading
from tests.peers.test_kraft import BROKERS, directory, refuse_finalization
from zk import paths

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3000)]

__all__ = ["directory"]
EPOCH: Final = 50
"""Above those of a controller on ZooKeeper in a test."""
_JAAS: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret"'
    ' user_admin="secret";'
)


def make_topics(servers: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(list(topics), request_timeout=60).values():
        future.result(60)


def kill_at(found: Machines, act: Act, *words: str) -> None:
    """Run the tool until it begins an act, and kill it with its command."""
    output = found.directory / "killed.output"
    command = [sys.executable, "-m", "kafkalite", "migrate", *found.words_of(*words)]
    with output.open("wb") as log:
        tool = subprocess.Popen(
            command, env=found.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def has_begun() -> bool:
        assert tool.poll() is None, output.read_text()
        return any(line.endswith(f": {act}") for line in output.read_text().splitlines())

    try:
        wait_until(has_begun, f"the beginning of {act}", 240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(tool.pid, signal.SIGKILL)
        tool.wait()


def take_back(found: Machines, form: Form, *rollback: str) -> None:
    """Take the step that was begun back; what had to wait for the killed step's stop is called again, as it asks for."""
    words = found.words_of(*rollback, "--wait", "120")
    done = found.try_call(*words)
    if done.exit_code == 5:
        done = found.try_call(*words)
    assert done.exit_code == 0 and done.stderr.splitlines()[-1].endswith(f"is {form_name(form)}"), (
        f"{done.output}\n{found.log_tails()}"
    )


def form_name(form: Form) -> str:
    from kafkalite.cli.migrate.kraft.forms import FORM_NAMES

    return FORM_NAMES[form]


def test_a_step_that_was_killed_in_the_middle_is_taken_back(directory: Path) -> None:
    """Wherever the tool died, its server is what it was, and the next try succeeds; a rollback that was killed goes on."""
    evidence, plan = directory / "evidence", directory / "kraft.toml"
    step, rollback = ("kraft", "step", str(plan)), ("kraft", "rollback", str(plan))
    with machines(directory, BROKERS) as (found, _):
        found.start_brokers("zookeeper")
        make_topics(found.servers, NewTopic("probed", 2, BROKERS))
        with loading(found, evidence) as group:
            found.start_controllers()
            found.place()
            found.call("kraft", "plan", str(plan), "--controllers", found.voters)
            for act in (Act.STOP, Act.START, Act.SETTLE):
                kill_at(found, act, *step)
                take_back(found, Form.ZOOKEEPER, *rollback)
            move(found, plan, BROKERS)
            kill_at(found, Act.START, *step)
            # A broker in migration mode has the stopped one in its metadata still: its groups cannot be listed.
            unverified = (*rollback, "--without-evidence")
            kill_at(found, Act.START, *unverified)
            refused = found.try_call(*found.words_of(*step))
            assert refused.exit_code == 1 and "kafkalite migrate kraft rollback" in refused.stderr, refused.stderr
            take_back(found, Form.MIGRATION, *unverified)
            kill_at(found, Act.VERIFY, *step)
            take_back(found, Form.MIGRATION, *rollback)
            move(found, plan, BROKERS)
            assert found.place("final").startswith("brokers are restarted on KRaft")
        check_evidence(found, evidence, group)


def test_a_partition_of_a_later_epoch_is_offline_after_the_way_back_until_doctor_repairs_it(directory: Path) -> None:
    """KAFKA-20488: the quorum's epoch is above `/controller_epoch`, and a controller on ZooKeeper elects nobody for what it wrote, though a
    replica in sync lives.
    """
    plan = directory / "kraft.toml"
    with machines(directory, BROKERS) as (found, _):
        found.start_brokers("zookeeper")
        found.start_controllers(EPOCH)
        found.place()
        found.call("kraft", "plan", str(plan), "--controllers", found.voters)
        move(found, plan, BROKERS)
        make_topics(found.servers, NewTopic("late", 2, replica_assignment=[[1, 2], [2, 1]]))
        wait_until_healthy(found)
        leave_migration_znode(found, plan)
        released = found.try_call("kraft", "release", "--controllers", found.voters, "--yes")
        assert released.exit_code == 7 and "deleted: /migration" in released.stderr, released.output
        assert "late-0, late-1 were written in controller epochs up to" in released.stdout, released.stdout
        early = found.try_call(*found.words_of("kraft", "rollback", str(plan)))
        assert early.exit_code == 7 and "before a broker is stopped: kafkalite doctor --fix" in early.stderr
        with ClusterFacts(found.zookeeper) as facts:
            (other,) = found.brokers.keys() - {facts.controller()}
            found.run("stop", other)
            unled = f"late-{other - 1} have no live leader, and an in-sync replica that lives"
            wait_until(lambda: unled in doctor(found).stdout, "nobody leads, and nobody is elected", 120)
            fixed = doctor(found, "--fix", "--yes")
            assert fixed.exit_code == 0, fixed.output
            wait_until(lambda: set(facts.leaders("late")) == found.brokers.keys() - {other}, "the other one leads", 60)
        found.run("start", other, "migration")
        wait_until_healthy(found)
        found.step("kraft", "rollback", str(plan))
        found.step("kraft", "rollback", str(plan))
        assert doctor(found).exit_code == 0


def wait_until_healthy(found: Machines) -> None:
    words = ("cluster", "health")
    wait_until(lambda: CliRunner().invoke(main, words, env=found.environment).exit_code == 0, "all in sync", 240)


def leave_migration_znode(found: Machines, plan: Path) -> None:
    """Give the cluster back by hand, as with Apache Kafka alone: `/controller` is deleted, and `/migration` stays. The tool sees it."""
    found.run("stop", CONTROLLER)
    with ClusterFacts(found.zookeeper) as facts:
        facts.client.delete(paths.CONTROLLER)
        wait_until(lambda: facts.controller() in found.brokers, "a broker that is the controller", 120)
    told = found.try_call("kraft", "check", "--controllers", found.voters)
    assert told.exit_code == 7 and f"/migration is left of controller {CONTROLLER}" in told.stdout, told.output
    early = found.try_call(*found.words_of("kraft", "rollback", str(plan)))
    assert early.exit_code == 7 and "has left /migration" in early.stderr, early.output


def doctor(found: Machines, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--only", "znodes", *words], env=found.environment)


def secure(folder: Path) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return settings of servers whose listeners have SASL over TLS, for brokers and controllers alike, and variables for the tool."""
    authority = Authority()
    (folder / "trust.pem").write_bytes(authority.pem)
    (folder / "server.pem").write_bytes(authority.issue("server").pem)
    tls = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "trust.pem")}
    servers = tls | {
        "inter.broker.listener.name": "INSIDE",
        "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": _JAAS,
        "listener.name.controller.plain.sasl.jaas.config": _JAAS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "super.users": "User:admin",
    }
    tool = tls | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": _JAAS,
    }
    return servers, {f"KAFKALITE_{name.replace('.', '_').upper()}": value for name, value in tool.items()}


def test_the_way_to_kafka_4_with_sasl_and_tls_between_all_servers(directory: Path) -> None:
    evidence, plan = directory / "evidence", directory / "kraft.toml"
    servers, variables = secure(directory)
    with machines(directory, 1, servers) as (found, _):
        found.environment |= variables
        found.start_brokers("zookeeper")
        made = CliRunner().invoke(main, ["topic", "create", "probed", "--partitions", "2"], env=found.environment)
        assert made.exit_code == 0, made.output
        found.call("evidence", "before", str(evidence))
        found.call("probe", str(evidence), "--topic", "probed", "--records", "500")
        found.call("kraft", "plan", str(plan), "--controllers", found.voters)
        assert '"listener.security.protocol.map" = "INSIDE:SASL_SSL,CONTROLLER:SASL_SSL"' in plan.read_text()
        found.start_controllers()
        assert found.place().startswith("controllers wait")
        move(found, plan, 1)
        assert found.place("kraft").startswith("metadata is copied")
        refuse_finalization(found)
        move(found, plan, 1)
        found.step("kraft", "rollback", str(plan))
        move(found, plan, 1)
        move(found, plan, 1, "--no-way-back")
        move(found, plan, 2)
        assert found.place("kafka-4").startswith("servers become Apache Kafka 4")
        found.call("evidence", "after", str(evidence))
        assert "there once, in order" in found.call("verify", str(evidence))

"""From brokers of ours to Apache Kafka 4 on the same logs, under load: the swap to 3.9, its move to KRaft (KIP-866), the upgrade; and the
way back from every point that has one. All by `kafkalite migrate`, with `--long`, because a dozen Java machines start one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.peers.kraft_machines import CONTROLLER, Machines, describe, fill, machines, move, swap
from tests.peers.probed import check_evidence, loading

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3000)]

BROKERS: Final = 2


@pytest.fixture
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if not request.config.getoption("--long"):
        pytest.skip("a dozen Java machines start one after the other: with --long")
    return tmp_path


def test_from_ours_in_place_to_apache_kafka_4(directory: Path) -> None:
    """ZooKeeper is gone at the end, and everything else is as it was."""
    evidence, plan = directory / "evidence", directory / "kraft.toml"
    with machines(directory, BROKERS) as (found, cluster):
        found.start_brokers()
        fill(found.servers, len(found.brokers))
        was = describe(found.servers)
        with loading(found, evidence) as group:
            swap(found, directory / "swap.toml", "apache-kafka", "zookeeper")
            found.start_controllers()
            assert found.place().startswith("controllers wait")
            found.call("kraft", "plan", str(plan), "--controllers", found.voters)
            move(found, plan, BROKERS)
            assert found.place("kraft").startswith("metadata is copied")
            refuse_finalization(found)
            move(found, plan, BROKERS)
            assert found.place("final").startswith("brokers are restarted on KRaft")
            move(found, plan, 1, "--no-way-back")
            assert cluster.ensemble is not None
            asyncio.run(cluster.ensemble.kill(1))
            assert found.place("kafka-4").startswith("finalized")
            move(found, plan, BROKERS + 1)
            assert found.place("kafka-4").startswith("servers become Apache Kafka 4")
        check_evidence(found, evidence, group)
        assert describe(found.servers) == was
        assert found.try_call("kraft", "step", str(plan), *commands()).exit_code == 3


def commands() -> Sequence[str]:
    return ("--stop-command", "true", "--start-command", "true", "--yes")


def refuse_finalization(found: Machines) -> None:
    """The trap: controllers that leave migration mode while brokers need ZooKeeper."""
    done = found.try_call("kraft", "check", "--controllers", found.voters, "--before", "final")
    assert done.exit_code == 7 and "restart it on KRaft first" in done.stdout, done.stdout


def test_back_to_ours_from_every_point_before_the_finalization(directory: Path) -> None:
    """From KRaft to migration mode, to ZooKeeper, to ours; then forward again with a new quorum."""
    evidence, plan = directory / "evidence", directory / "kraft.toml"
    with machines(directory, 1) as (found, _):
        found.start_brokers()
        admin = AdminClient({"bootstrap.servers": found.servers})
        for future in admin.create_topics([NewTopic("probed", 2, 1)]).values():
            future.result(60)
        with loading(found, evidence) as group:
            swap(found, directory / "swap.toml", "apache-kafka", "zookeeper")
            found.start_controllers()
            found.place()
            found.call("kraft", "plan", str(plan), "--controllers", found.voters)
            move(found, plan, 2)
            found.step("kraft", "rollback", str(plan))
            early = found.try_call("kraft", "rollback", str(plan), *commands())
            assert early.exit_code == 7 and "kafkalite migrate kraft release" in early.stderr, early.stderr
            release = ("kraft", "release", "--controllers", found.voters, "--yes")
            assert found.try_call(*release).exit_code == 7
            found.run("stop", CONTROLLER)
            found.call(*release)
            found.step("kraft", "rollback", str(plan))
            swap(found, directory / "back.toml", "kafkalite", "ours")
        check_evidence(found, evidence, group)

"""Clusters of one and three brokers: how quickly they start, who reaches them, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from testcontainers.core.container import DockerContainer

from kafkalite.local.broker_process import BrokerDied, wait_until
from kafkalite.local.contract import LIVE_CLUSTERS
from kafkalite.testing.containers import KafkaliteCluster, KafkaliteContainer
from kafkalite.testing.containers.owner import OWNER_LABEL, owner_labels, remove_orphans
from kafkalite.testing.containers.server import MissingImageError


@pytest.fixture(scope="module", params=[1, 3])
def cluster_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"brokers": request.param, "zookeepers": 1}


@pytest.fixture(scope="module")
def neighbour(cluster: KafkaliteCluster, image: str) -> Iterator[DockerContainer]:
    """A container on the cluster's network that is no part of it."""
    other = DockerContainer(image, labels=owner_labels()).with_network(cluster.network).with_command("sleep 600")
    with other:
        yield other


def test_a_record_written_on_this_machine_is_read_in_a_container_and_back(
    cluster: KafkaliteCluster, neighbour: DockerContainer, round_trip: Callable[[str], None]
) -> None:
    round_trip(cluster.bootstrap_servers)
    inside = cluster.internal_bootstrap_servers
    command = (
        f"export KAFKALITE_BOOTSTRAP_SERVERS={inside}; kafkalite topic create both --partitions 3 "
        f"--replication-factor {len(cluster.broker_ids)} >&2 && echo from-inside | kafkalite produce both >&2 "
        "&& kafkalite consume both --exit-at-end"
    )
    status, output = neighbour.exec(["sh", "-c", command])
    assert status == 0 and b"from-inside" in output, output
    command = [sys.executable, "-m", "kafkalite", "consume", "both", "--exit-at-end", "-b", cluster.bootstrap_servers]
    outside = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert outside.stdout.split() == ["from-inside"]


def test_every_broker_is_reached_by_the_address_that_it_advertises(
    cluster: KafkaliteCluster, neighbour: DockerContainer, round_trip: Callable[[str], None]
) -> None:
    for broker in cluster.brokers.values():
        round_trip(broker.get_bootstrap_server())
        status, output = neighbour.exec(
            ["cub", "kafka-ready", "-b", broker.internal_server, str(len(cluster.brokers)), "20"]
        )
        assert status == 0, output


def test_a_lone_broker_brings_its_own_zookeeper(image: str, round_trip: Callable[[str], None]) -> None:
    with KafkaliteContainer(image) as kafka:
        round_trip(kafka.get_bootstrap_server())
        port = kafka.port
        kafka.kill()
        assert kafka.exit_status == 137
        kafka.start_again()
        kafka.wait_ready(frozenset({1}), 60)
        assert kafka.port == port
        round_trip(kafka.get_bootstrap_server())


def test_settings_reach_the_broker_and_wrong_ones_are_told(image: str) -> None:
    with KafkaliteContainer(
        image, properties={"auto.create.topics.enable": "false", "log.retention.ms": "77"}
    ) as kafka:
        status, output = kafka.exec(["cat", "/etc/kafka/kafka.properties"])
        assert status == 0
        assert {b"log.retention.ms=77", b"auto.create.topics.enable=false"} <= set(output.splitlines())
    with pytest.raises(BrokerDied, match=r"ended with status 1(?s:.*)num\.partitions"):
        KafkaliteContainer(image, properties={"num.partitions": "many"}).start()


def test_an_image_that_is_not_there_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, engine: docker.DockerClient
) -> None:
    monkeypatch.setenv("KAFKALITE_IMAGE", "kafkalite-absent:none")
    with pytest.raises(MissingImageError, match="deploy/build-image"), KafkaliteCluster(brokers=1):
        pass


def test_a_failing_test_shows_the_logs_of_the_cluster(cluster: KafkaliteCluster) -> None:
    assert cluster in LIVE_CLUSTERS
    logs = cluster.logs()
    assert len(logs) == len(cluster.brokers) + 1
    assert all("INFO" in text for text in logs.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_containers_end_with_the_process_that_made_them(
    engine: docker.DockerClient, image: str, number: signal.Signals
) -> None:
    """After SIGINT the process removes them itself, after SIGKILL the next one does."""
    script = "import sys; from kafkalite.testing.containers import *; KafkaliteCluster(1).start(); print('up', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"KAFKALITE_IMAGE": image},
        # Whoever runs the tests in the background lets them ignore SIGINT, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert left_by(engine, process.pid) == 3
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
        process.communicate()
    if number == signal.SIGKILL:
        assert left_by(engine, process.pid) == 3
        remove_orphans(engine)
    wait_until(lambda: left_by(engine, process.pid) == 0, "removal of containers and networks", 20)


def left_by(engine: docker.DockerClient, pid: int) -> int:
    """How many containers and networks carry this process in their labels."""
    containers = engine.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True)
    networks = engine.networks.list(filters={"label": OWNER_LABEL})
    owners = [container.labels[OWNER_LABEL] for container in containers]
    owners += [network.attrs["Labels"][OWNER_LABEL] for network in networks]
    return sum(f"/{pid}/" in owner for owner in owners)

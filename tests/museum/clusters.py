"""The clusters that the museum's clients are shown on: ours, a live Apache Kafka 3.9 with ZooKeeper, and Apache Kafka 4 without."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.museum.environments import cache_folder, fetch_jars
from tests.museum.stage import Stage
from tests.peers.apache_kafka import broker_command, wait_for_controller

KAFKA_4: Final = "4.1.0"
START_TIMEOUT_S: Final = 60

PROPERTIES: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@contextmanager
def _with_zookeeper(command: Callable[[], list[str]]) -> Iterator[Stage]:
    with LocalCluster(brokers=1, properties=PROPERTIES, command=command()) as cluster:
        wait_for_controller(cluster.bootstrap_servers)
        yield Stage(cluster.bootstrap_servers, cluster.zookeeper_connect)


def _kafka_4_jars() -> Path:
    folder = cache_folder() / f"apache-kafka-{KAFKA_4}"
    complete = folder / ".complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch_jars({folder: [f"org.apache.kafka:kafka_2.13:{KAFKA_4}"]})
        complete.touch()
    return folder


@contextmanager
def _kafka_4() -> Iterator[Stage]:
    """One node, broker and controller at once (KRaft)."""
    java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{_kafka_4_jars()}/*"]
    with tempfile.TemporaryDirectory(prefix="museum-") as directory:
        broker, controller = ReservedPort(), ReservedPort()
        address = f"127.0.0.1:{broker.number}"
        properties = PROPERTIES | {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller.number}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller.number}",
            "log.dirs": f"{directory}/logs",
        }
        settings = Path(directory, "server.properties")
        settings.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        cluster_id = "bXVzZXVtLWNsdXN0ZXItMQ"
        formatting = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(settings)]
        subprocess.run(formatting, check=True, capture_output=True, timeout=START_TIMEOUT_S)
        with Path(directory, "output").open("wb") as output:
            process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=output, stderr=output)
        try:
            wait_until(lambda: process.poll() is not None or _answers(broker.number), "a broker", START_TIMEOUT_S)
            wait_for_controller(address)
            yield Stage(address, "")
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)
            broker.release()
            controller.release()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


CLUSTERS: Final[Mapping[str, Callable[[], AbstractContextManager[Stage]]]] = {
    "ours": lambda: _with_zookeeper(lambda: list(BROKER_COMMAND)),
    "kafka-3.9": lambda: _with_zookeeper(broker_command),
    "kafka-4": _kafka_4,
}
"""By name, each starts a cluster for the length of a `with` block."""

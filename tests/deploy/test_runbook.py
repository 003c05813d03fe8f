"""The commands of deploy/RUNBOOK.md, in the order of its chapters, on a cluster to which happens what each chapter is about."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import kafkalite
from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.deploy.machines import Machines

pytestmark = pytest.mark.timeout(400)  # a chapter is many commands

DEPLOY: Final = Path(kafkalite.__file__).parents[1] / "deploy"
TOPIC: Final = "orders"
PARTITIONS: Final = 4
CHAPTERS_WITHOUT_TEST: Final = {"On Kubernetes"}


def chapters() -> dict[str, list[str]]:
    """The blocks of commands of each chapter; those before the first chapter under ""."""
    found = {}
    text = (DEPLOY / "RUNBOOK.md").read_text()
    for part in re.split(r"^## ", f"\n{text}", flags=re.MULTILINE):
        title, _, body = part.partition("\n")
        found[title] = re.findall(r"^```sh\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    return found


class Orders:
    """A topic whose records must survive every chapter."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._numbers = itertools.count()
        self._written: set[bytes] = set()
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, topic_configs={"min.insync.replicas": "2"})])

    def write(self) -> None:
        with SyncProducer(bootstrap_servers=self._cluster.bootstrap_servers) as producer:
            deliveries = []
            for number in itertools.islice(self._numbers, 20):
                value = b"%d" % number
                deliveries.append(producer.send(TOPIC, value, partition=number % PARTITIONS))
                self._written.add(value)
            for delivery in deliveries:
                delivery.result(30)

    def check(self) -> None:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        found: set[bytes] = set()
        with SyncConsumer(bootstrap_servers=self._cluster.bootstrap_servers) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning()

            def all_read() -> bool:
                for records in consumer.poll(timeout_ms=200).values():
                    found.update(record.value for record in records)
                return found >= self._written

            wait_until(all_read, "all records that were acknowledged", 30)

    def replicas(self) -> set[int]:
        with SyncAdmin(bootstrap_servers=self._cluster.bootstrap_servers) as admin:
            (topic,) = admin.describe_topics([TOPIC])
            return {replica for partition in topic.partitions for replica in partition.replicas}


def test_every_chapter_is_tested() -> None:
    """By its title, somewhere below."""
    source = Path(__file__).read_text()
    untested = {title for title, blocks in chapters().items() if title and f'"{title}"' not in source}
    assert not untested


def test_names_on_kubernetes_are_those_of_the_manifests() -> None:
    text = (DEPLOY / "RUNBOOK.md").read_text().partition("## On Kubernetes")[2]
    manifests = "".join(path.read_text() for path in (DEPLOY / "kubernetes").glob("*.yaml"))
    for name in re.findall(r"statefulset/(\S+)", text):
        assert re.search(rf"kind: StatefulSet\nmetadata:\n  name: {name}\n", manifests)
    assert set(re.findall(r"-n (\S+)", text)) == set(re.findall(r"^namespace: (\S+)$", manifests, re.MULTILINE))
    assert "data-broker-2 pod/broker-2" in text and re.search(
        r"volumeClaimTemplates:\n    - metadata:\n        name: data\n", manifests
    )


def test_the_cluster_of_the_runbook_is_that_of_the_units() -> None:
    (block,) = chapters()[""]
    found = dict(re.findall(r"export (\w+)=(\S+)", block))
    examples = (DEPLOY / "systemd" / "nightly.env").read_text()
    assert all(f"{name}={value}\n" in examples for name, value in found.items())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"offsets.topic.num.partitions": "2", "auto.create.topics.enable": "false"}
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=3, zookeepers=3, properties=settings, directory=directory) as running:
        yield running


@pytest.fixture(scope="module")
def orders(cluster: LocalCluster) -> Orders:
    return Orders(cluster)


@pytest.fixture(scope="module")
def machines(cluster: LocalCluster, orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    del orders  # there before anything happens
    with Machines(cluster, tmp_path_factory.mktemp("machines")) as running:
        yield running


@pytest.fixture(autouse=True)
def records_survive(request: pytest.FixtureRequest) -> Iterator[None]:
    if "machines" not in request.fixturenames:
        yield
        return
    orders: Orders = request.getfixturevalue("orders")
    orders.write()
    yield
    orders.check()


def follow(machines: Machines, chapter: str, first: int = 0, last: int | None = None) -> str:
    """Run the blocks of a chapter; what they printed."""
    printed = ""
    blocks = chapters()[chapter][first:last]
    assert blocks
    for block in blocks:
        done = machines.run(block)
        assert done.returncode == 0, f"{block}\nended with {done.returncode}:\n{done.stdout}"
        printed += done.stdout
    return printed


def epochs(cluster: LocalCluster) -> dict[int, int]:
    """The moment of each broker's registration: another one after a restart."""
    with ClusterFacts(cluster.zookeeper_connect) as facts:
        return {broker: facts.broker_epoch(broker) for broker in facts.brokers()}


def test_look(machines: Machines) -> None:
    printed = follow(machines, "Look")
    assert "controller" in printed


def test_rolling_restart(machines: Machines, cluster: LocalCluster) -> None:
    before = epochs(cluster)
    follow(machines, "Restart one broker after the other")
    after = epochs(cluster)
    assert after.keys() == before.keys()
    assert all(after[broker] > epoch for broker, epoch in before.items())


def test_rolling_restart_of_zookeeper(machines: Machines, cluster: LocalCluster) -> None:
    assert cluster.ensemble is not None
    pids = [member.process.pid for member in cluster.ensemble.members if member.process]
    before = epochs(cluster)
    follow(machines, "Restart one ZooKeeper server after the other")
    assert not {member.process.pid for member in cluster.ensemble.members if member.process} & set(pids)
    assert epochs(cluster) == before


def test_upgrade(machines: Machines, cluster: LocalCluster) -> None:
    before = epochs(cluster)
    follow(machines, "Upgrade")
    assert machines.installed == ["broker-1", "broker-2", "broker-3"]
    assert all(epoch > before[broker] for broker, epoch in epochs(cluster).items())


def test_a_lost_broker_is_replaced(machines: Machines, cluster: LocalCluster) -> None:
    machines.lose_broker(3)
    follow(machines, "Replace a broker")
    assert cluster.broker(3).log_dir.joinpath(f"{TOPIC}-0").is_dir()


def test_a_broker_comes_and_goes(machines: Machines, cluster: LocalCluster, orders: Orders) -> None:
    follow(machines, "Add a broker")
    assert orders.replicas() == {1, 2, 3, 4}
    orders.write()
    follow(machines, "Take a broker away")
    assert orders.replicas() == {1, 2, 3}
    assert not cluster.brokers.pop(4).running


def test_a_damaged_log_is_fetched_again(machines: Machines, cluster: LocalCluster) -> None:
    stop_and_verify, repair = chapters()["Restore a damaged log"]
    log = next(cluster.broker(2).log_dir.joinpath(f"{TOPIC}-0").glob("*.log"))
    cluster.stop(2)  # so that nothing is appended behind the damage
    content = bytearray(log.read_bytes())
    content[70] ^= 0xFF
    log.write_bytes(content)
    cluster.broker(2).start()
    found = machines.run(stop_and_verify)
    assert found.returncode == 7, found.stdout
    assert f"{TOPIC}-0" in found.stdout
    done = machines.run(repair)
    assert done.returncode == 0, done.stdout


def test_a_lost_zookeeper_server_is_restored(machines: Machines, cluster: LocalCluster) -> None:
    machines.lose_zookeeper(2)
    follow(machines, "Restore a ZooKeeper server")
    assert cluster.ensemble is not None
    assert cluster.ensemble.member(2).data_path.joinpath("version-2").is_dir()


def test_the_whole_ensemble_is_restored(machines: Machines) -> None:
    follow(machines, "Restore the whole ensemble", last=1)
    for server in (1, 2, 3):
        machines.lose_zookeeper(server)
    follow(machines, "Restore the whole ensemble", first=1)

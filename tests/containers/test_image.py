"""The image by itself, as compose files and other people's tools use the images of Confluent and Apache."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator

import docker
import pytest
from docker.models.containers import Container
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.containers.owner import owner_labels

MAX_BYTES = 350_000_000


@pytest.fixture
def network(engine: docker.DockerClient) -> Iterator[Network]:
    with Network(docker_network_kw={"labels": owner_labels()}) as made:
        yield made


@pytest.fixture
def run(engine: docker.DockerClient, image: str) -> Iterator[Callable[..., Container]]:
    """Runs a container of the image as `docker run` does; it is removed after the test."""
    made: list[Container] = []

    def start(**options: object) -> Container:
        made.append(engine.containers.run(image, detach=True, labels=owner_labels(), **options))
        return made[-1]

    yield start
    for container in made:
        container.remove(force=True, v=True)


def wait_logged(container: Container, text: str, timeout_s: float = 60) -> None:
    try:
        wait_until(lambda: text.encode() in container.logs(), f"{text!r} in the log", timeout_s)
    except TimeoutError as problem:
        raise TimeoutError(f"{problem}\n{container.logs(tail=40).decode()}") from None


def execute(container: Container, command: list[str]) -> str:
    status, output = container.exec_run(command)
    assert status == 0, output
    return str(output.decode())


def test_it_is_small_and_says_how_it_is_to_be_run(engine: docker.DockerClient, image: str) -> None:
    found = engine.images.get(image)
    print(f"{image}: {found.attrs['Size'] / 1e6:.0f} MB")
    assert found.attrs["Size"] < MAX_BYTES
    config = found.attrs["Config"]
    assert config["User"] == "appuser" and config["Healthcheck"]["Test"]
    assert set(config["Volumes"]) == {"/var/lib/kafka/data", "/var/lib/zookeeper/data", "/var/lib/zookeeper/log"}


def test_a_container_without_any_variable_is_a_broker(run: Callable[..., Container]) -> None:
    container = run()
    wait_logged(container, "[KafkaServer id=1] started")
    assert execute(container, ["id", "-u"]).strip() == "1000"
    execute(container, ["/etc/confluent/docker/healthcheck"])
    execute(container, ["kafkalite", "topic", "create", "t", "-b", "localhost:9092"])
    container.reload()
    container.stop(timeout=20)
    assert container.wait()["StatusCode"] == 0
    assert b"(kafkalite.broker.process)" in container.logs()
    container.start()
    wait_until(lambda: container.logs().count(b"[KafkaServer id=1] started") == 2, "second start", 60)
    assert execute(container, ["kafkalite", "topic", "list", "-b", "localhost:9092"]).split() == ["t"]


def test_any_user_of_the_root_group_may_run_it(run: Callable[..., Container]) -> None:
    """As some platforms do."""
    container = run(user="12345:0")
    wait_logged(container, "[KafkaServer id=1] started")


def test_its_health_is_that_of_its_server(run: Callable[..., Container]) -> None:
    check = {
        "test": ["CMD", "/etc/confluent/docker/healthcheck"],
        "interval": 200_000_000,
        "retries": 1,
        "timeout": 10**10,
    }
    container = run(healthcheck=check)

    def health() -> str:
        container.reload()
        return str(container.attrs["State"]["Health"]["Status"])

    wait_until(lambda: health() == "healthy", "health", 60)
    execute(container, ["sh", "-c", "kill $(pidof java)"])
    wait_until(lambda: health() == "unhealthy", "illness of the container without its ZooKeeper", 60)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"KAFKA_LISTENERS": "nonsense"}, "must be NAME://host:port"),
        ({"KAFKA_PROCESS_ROLES": "controller"}, "asks for a KRaft controller"),
        ({"ZOOKEEPER_SERVERS": "a:1:2;b:1:2;c:1:2"}, "ZOOKEEPER_SERVER_ID"),
    ],
)
def test_wrong_variables_are_told(run: Callable[..., Container], variables: dict[str, str], reason: str) -> None:
    container = run(environment=variables)
    assert container.wait(timeout=30)["StatusCode"] == 1
    assert reason in container.logs().decode()


def test_it_takes_the_place_of_cp_zookeeper_and_cp_kafka(
    image: str, network: Network, round_trip: Callable[[str], None]
) -> None:
    """The variables of Confluent's quickstart; the shell commands are those of testcontainers-java's cluster example."""
    zookeeper = DockerContainer(image, hostname="zookeeper", labels=owner_labels())
    zookeeper.with_envs(ZOOKEEPER_CLIENT_PORT="2181", ZOOKEEPER_TICK_TIME="2000")
    zookeeper.with_network(network).with_network_aliases("zookeeper")
    broker = DockerContainer(image, labels=owner_labels()).with_network(network).with_network_aliases("broker")
    broker.with_envs(
        KAFKA_BROKER_ID="1",
        KAFKA_ZOOKEEPER_CONNECT="zookeeper:2181",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_JMX_PORT="9101",
    )
    with zookeeper, broker:
        started = broker.get_wrapped_container()
        wait_logged(started, "[KafkaServer id=1] started")
        found = zookeeper.exec(["sh", "-c", "zookeeper-shell zookeeper:2181 ls /brokers/ids | tail -n 1"])
        assert found.exit_code == 0 and found.output.decode().strip() == "[1]"
        for listener in ("broker:29092", "localhost:9092"):
            execute(started, ["cub", "kafka-ready", "-b", listener, "1", "20"])
        execute(started, ["cub", "zk-ready", "zookeeper:2181", "20"])


@pytest.mark.parametrize("with_kraft", [False, True])
def test_testcontainers_own_kafka_container_runs_it_unmodified(
    engine: docker.DockerClient, image: str, with_kraft: bool, round_trip: Callable[[str], None]
) -> None:
    """with_kraft looks at the tag and wants that of a Confluent Platform."""
    tag = "kafkalite-as-cp:7.6.0"
    engine.images.get(image).tag(tag)
    try:
        kafka = KafkaContainer(image=tag)
        if with_kraft:
            kafka.with_kraft()
        with kafka:
            round_trip(kafka.get_bootstrap_server())
    finally:
        engine.images.remove(tag)


def test_the_start_of_apache_kafkas_image_works(run: Callable[..., Container]) -> None:
    """testcontainers-java puts a script into the container and waits for the words of a KRaft broker."""
    container = run(
        entrypoint=[
            "sh",
            "-c",
            "while [ ! -f /tmp/testcontainers_start.sh ]; do sleep 0.1; done; /tmp/testcontainers_start.sh",
        ],
        environment={
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
    )
    script = b"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,BROKER://$(hostname -i):9093\n"
    put_file(container, "testcontainers_start.sh", script + b"/etc/kafka/docker/run\n")
    wait_logged(container, "Transitioning from RECOVERY to RUNNING")
    assert execute(container, ["kafkalite", "topic", "create", "t", "-b", "localhost:9092"])


def put_file(container: Container, name: str, content: bytes) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o777
        files.addfile(entry, io.BytesIO(content))
    container.put_archive("/tmp", archive.getvalue())

"""Containers of our image. Without Docker or the image the tests are reported as not run; KAFKALITE_REQUIRE_PEERS=1 forbids that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

# Its own reaper is an image that may be out of reach; our containers end without it.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

import docker
import docker.errors

from kafkalite.testing.containers.cluster import KafkaliteCluster
from kafkalite.testing.containers.server import default_image
from tests.conftest import not_run


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """Docker, with our image."""
    try:
        client = docker.from_env()
        client.images.get(default_image())
    except docker.errors.ImageNotFound:
        not_run(f"there is no image {default_image()}; build it with deploy/build-image")
    except docker.errors.DockerException as problem:
        not_run(f"Docker's engine cannot be reached: {problem}")
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient) -> str:
    """The name of our image."""
    return default_image()


@pytest.fixture(scope="module")
def cluster(image: str, cluster_options: dict[str, Any]) -> Iterator[KafkaliteCluster]:
    """A cluster for the tests of a module, shaped by its fixture `cluster_options`."""
    with KafkaliteCluster(image=image, **cluster_options) as running:
        yield running


@pytest.fixture
def round_trip() -> Callable[[str], None]:
    """Sends a record to a new topic of a cluster and reads it back as a member of a group, from this machine."""

    def send_and_read(bootstrap_servers: str) -> None:
        topic = f"round-trip-{os.urandom(4).hex()}"
        settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        producer = confluent_kafka.Producer(settings | {"acks": "all"})
        producer.produce(topic, b"hello")
        assert producer.flush(30) == 0
        consumer = confluent_kafka.Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            record = consumer.poll(30)
            assert record is not None and record.error() is None and record.value() == b"hello"
        finally:
            consumer.close()

    return send_and_read

"""A secured cluster in containers: its users come in, nobody else does, and this machine reaches its ZooKeeper as a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import docker
import pytest

from kafkalite.client import ClientError, SyncAdmin, SyncProducer
from kafkalite.testing.containers import KafkaliteCluster
from kafkalite.testing.containers.owner import OWNER_LABEL, owner_labels

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(image: str, engine: docker.DockerClient) -> Iterator[KafkaliteCluster]:
    running = KafkaliteCluster(1, 1, secure=True, image=image)
    with running:
        yield running
    label = owner_labels()[OWNER_LABEL]
    assert not engine.volumes.list(filters={"label": f"{OWNER_LABEL}={label}"})


def options_of(cluster: KafkaliteCluster, user: str) -> dict[str, Any]:
    return {key.replace(".", "_"): text for key, text in cluster.security.client_settings(user).items()}


def test_users_come_in_with_their_rights_and_nobody_else(cluster: KafkaliteCluster) -> None:
    servers = cluster.bootstrap_servers
    with SyncProducer(bootstrap_servers=servers, **options_of(cluster, "app")) as producer:
        assert producer.send_and_wait("app-orders", b"one").offset == 0
        with pytest.raises(ClientError, match="authoriz"):
            producer.send_and_wait("others", b"one")
    with SyncAdmin(bootstrap_servers=servers, **options_of(cluster, "admin")) as admin:
        assert "app-orders" in admin.list_topics()
    wrong = options_of(cluster, "app") | {
        "sasl_jaas_config": 'x.ScramLoginModule required username="app" password="x";'
    }
    for options in (wrong, {"request_timeout_ms": 2000, "default_api_timeout_ms": 4000}):
        with pytest.raises(ClientError), SyncAdmin(bootstrap_servers=servers, **options) as admin:
            admin.list_topics()


def test_this_machine_asks_zookeeper_as_a_broker(cluster: KafkaliteCluster) -> None:
    assert cluster.controller() == 1
    assert cluster.ensemble.roles() == {1: "standalone"}

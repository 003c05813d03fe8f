"""What secured containers are given: files that only the image's user reads, and settings that name them where they are."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from kafkalite.config.environment import as_variables
from kafkalite.config.environment import broker_settings as settings_of_variables
from kafkalite.testing.containers.security import PLACE, ContainerSecurity, pack_folder


@pytest.fixture
def security() -> Iterator[ContainerSecurity]:
    made = ContainerSecurity(["broker-1", "zk1"])
    yield made
    made.close()


def test_files_are_the_images_users_alone(security: ContainerSecurity) -> None:
    security.cluster.make()
    with tarfile.open(fileobj=io.BytesIO(pack_folder(security.cluster.folder))) as archive:
        found = {each.name: (each.uid, each.mode) for each in archive.getmembers()}
    assert set(found) >= {"ca.pem", "broker.pem", "admin.pem", "zookeeper.pem", "passwords.properties", "http.users"}
    assert set(found.values()) == {(1000, 0o600)}


def test_brokers_have_a_listener_for_each_kind_of_client(security: ContainerSecurity) -> None:
    properties = security.broker_properties("broker-1", 1, 2, 3, "localhost:30000")
    assert (
        properties["advertised.listeners"] == "BROKERS://broker-1:1,CONTAINERS://broker-1:2,CLIENTS://localhost:30000"
    )
    assert properties["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,BROKERS:SSL,CONTAINERS:SASL_SSL"
    assert properties["ssl.keystore.location"] == str(PLACE / "broker.pem")
    jaas = {properties[f"listener.name.{each}.scram-sha-512.sasl.jaas.config"] for each in ("clients", "containers")}
    assert len(jaas) == 1
    assert settings_of_variables(as_variables(properties)).items() >= properties.items()


def test_zookeeper_serves_those_with_a_certificate(security: ContainerSecurity) -> None:
    variables = security.zookeeper_variables
    assert variables["ZOOKEEPER_CLIENT_PORT_ADDRESS"] == "127.0.0.1"
    assert f"keyStore.location={PLACE / 'zookeeper.pem'}" in variables["KAFKA_OPTS"]

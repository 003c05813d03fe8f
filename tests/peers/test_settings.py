"""Our tables of settings against those of Apache Kafka: names, types, defaults, sources, synonyms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kafkalite.config.dynamic import BrokerSources, ConfigEntry, describe_broker, describe_topic
from kafkalite.config.properties import read_properties
from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka

pytestmark = pytest.mark.peer

OWN = {"remote.storage.enable", "inter.broker.protocol.version"}
"""Settings whose description may differ: what this broker lacks, or states about itself."""


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    command = apache_kafka.broker_command()
    settings = {"log.retention.hours": "100", "message.max.bytes": "2000000"}
    folder = tmp_path_factory.mktemp("apache")
    with LocalCluster(brokers=1, properties=settings, command=command, directory=folder) as running:
        apache_kafka.wait_for_controller(running.bootstrap_servers)
        yield running


@pytest.fixture(scope="module")
def static(apache: LocalCluster) -> dict[str, str]:
    return read_properties(Path(apache.broker(1).properties_path))


def described(apache: LocalCluster, kind: ResourceType, name: str) -> dict[str, tuple[object, ...]]:
    admin = AdminClient({"bootstrap.servers": apache.bootstrap_servers})
    resource = ConfigResource(kind, name)
    entries = admin.describe_configs([resource], request_timeout=30)[resource].result(30)
    return {
        entry.name: (
            entry.value,
            entry.source,
            bool(entry.is_read_only),
            bool(entry.is_sensitive),
            {each.name: (each.value, each.source) for each in entry.synonyms.values()},
        )
        for entry in entries.values()
    }


def ours(entry: ConfigEntry) -> tuple[object, ...]:
    # The client keeps one synonym of each name, the last.
    synonyms = {each.name: (each.value, int(each.source)) for each in entry.synonyms}
    return entry.value, int(entry.source), entry.read_only, entry.sensitive, synonyms


Described = dict[str, tuple[object, ...]]


def differences(mine: Described, theirs: Described) -> list[str]:
    return [
        f"{name}: {mine[name]} where Apache Kafka has {theirs[name]}"
        for name in sorted((mine.keys() & theirs.keys()) - OWN)
        if mine[name] != theirs[name]
    ]


def test_topics_are_described_as_apache_kafka_describes_them(apache: LocalCluster, static: dict[str, str]) -> None:
    overrides = {"retention.ms": "1234567", "cleanup.policy": "compact,delete"}
    admin = AdminClient({"bootstrap.servers": apache.bootstrap_servers})
    admin.create_topics([NewTopic("described", 1, 1, config=overrides)], request_timeout=30)["described"].result(30)
    theirs = described(apache, ResourceType.TOPIC, "described")
    mine = {entry.name: ours(entry) for entry in describe_topic(BrokerSources(static), overrides)}
    assert sorted(mine) == sorted(theirs)
    assert not (found := differences(mine, theirs)), "\n".join(found)


def test_brokers_are_described_as_apache_kafka_describes_them(apache: LocalCluster, static: dict[str, str]) -> None:
    theirs = described(apache, ResourceType.BROKER, "1")
    own = "kafkalite."  # to Apache Kafka a name that it does not know, and so might be a secret
    mine = {
        entry.name: ours(entry) for entry in describe_broker(BrokerSources(static)) if not entry.name.startswith(own)
    }
    assert len(mine.keys() & theirs.keys()) > 120
    assert not (found := differences(mine, theirs)), "\n".join(found)

"""Listeners that are added and removed while a broker serves (KIP-226), as Kafka's clients see them."""

from __future__ import annotations

import socket

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster

pytestmark = pytest.mark.wire


def alter(admin: AdminClient, broker: int, operation: AlterConfigOpType, **settings: str | None) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), text, incremental_operation=operation) for name, text in settings.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def reachable(server: str) -> dict[int, str]:
    """The brokers that a client is told of through this listener; empty when nobody answers there."""
    try:
        told = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(timeout=2)
    except confluent_kafka.KafkaException:
        return {}
    return {each.id: f"{each.host}:{each.port}" for each in told.brokers.values()}


def test_a_listener_serves_as_soon_as_it_is_added_and_no_longer_once_it_is_removed(
    cluster: LocalCluster, admin: AdminClient, servers: str
) -> None:
    broker = 2
    with socket.create_server(("127.0.0.1", 0)) as free:
        extra = f"127.0.0.1:{free.getsockname()[1]}"
    first = cluster.broker(broker).address
    alter(
        admin,
        broker,
        AlterConfigOpType.SET,
        listeners=f"PLAINTEXT://{first},EXTRA://{extra}",
        advertised_listeners=f"PLAINTEXT://{first},EXTRA://{extra}",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    )
    wait_until(lambda: reachable(extra) == {broker: extra}, "the new listener is told", 30)
    assert reachable(servers).keys() == {1, 2, 3}
    gone = dict.fromkeys(("listeners", "advertised_listeners", "listener_security_protocol_map"))
    alter(admin, broker, AlterConfigOpType.DELETE, **gone)
    wait_until(lambda: reachable(extra) == {}, "the listener is gone", 30)
    assert reachable(first).keys() == {1, 2, 3}

"""Our client reads from the replica in its rack when the brokers choose by racks (KIP-392), alone, as an iterator and by ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from kafkalite.local.cluster import LocalCluster

T0 = TopicPartition("t", 0)
RACK_AWARE = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def test_records_come_from_the_replica_in_the_rack(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    racks = {1: "here", 2: "there"}
    with LocalCluster(brokers=2, properties=RACK_AWARE, racks=racks, directory=tmp_path / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        with SyncAdmin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", replica_assignments={0: [1, 2]})])
        with SyncProducer(bootstrap_servers=servers) as producer:
            for number in range(100):
                producer.send("t", b"%d" % number)
        with SyncConsumer(bootstrap_servers=servers, client_rack="there", auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            assert [next(consumer).value for _ in range(100)] == [b"%d" % number for number in range(100)]
            fetcher, view = consumer._core._fetcher, consumer._core._cluster.view
            assert view.leader_of(T0) == 1
            assert fetcher._read_replicas.choose(T0, view, 0.0) == 2
            offsets = [each.as_py() for batch in consumer.read_range(T0, 10, 90) for each in batch.column("offset")]
            assert offsets == list(range(10, 90))
        with SyncConsumer(bootstrap_servers=servers, client_rack="elsewhere", auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            assert next(consumer).value == b"0"
            fetcher, view = consumer._core._fetcher, consumer._core._cluster.view
            assert fetcher._read_replicas.choose(T0, view, 0.0) == 1

"""Blocking clients: same results and errors, records in order, memory bounded."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafkalite.client import SyncAdmin, SyncConsumer, SyncProducer
from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import (
    BufferFullError,
    ClientClosedError,
    ClientTimeoutError,
    NoBrokersAvailableError,
    SerializationError,
)
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import HANG, FakeCluster, values_in

T0 = TopicPartition("t", 0)
FAST: dict[str, Any] = {"bootstrap_servers": "fake:9001", "retry_backoff_ms": 2, "retry_backoff_max_ms": 10}


def producer(cluster: FakeCluster, **options: Any) -> SyncProducer:
    return SyncProducer(**{**FAST, "opener": cluster.open, **options})


def test_what_is_sent_is_read_in_order() -> None:
    cluster = FakeCluster({"t": 1})
    with producer(cluster, value_serializer="int") as target:
        deliveries = [target.send("t", n) for n in range(500)]
        assert deliveries[-1].result(10).offset == 499 and deliveries[0].done()
        assert target.send_and_wait("t", 500).offset == 500
        target.flush(10)
        assert target.partitions_for("t") == {0}
    options = {**FAST, "opener": cluster.open, "auto_offset_reset": "earliest", "value_deserializer": "int"}
    with SyncConsumer(**options, fetch_max_wait_ms=20) as reader:
        reader.assign([T0])
        seen = []
        for record in reader:
            seen.append(record.value)
            if len(seen) == 501:
                break
        assert seen == list(range(501)) and reader.position(T0) == 501
        reader.seek(T0, 7)
        assert reader.getone().value == 7
        reader.seek_to_beginning()
        assert next(reader).offset == 0
        reader.pause(T0)
        assert reader.poll(timeout_ms=10) == {} and reader.paused() == {T0}
        reader.resume(T0)
        assert next(reader).offset == 1, "records behind the iteration's place are not lost by a pause"
        assert reader.end_offsets([T0]) == {T0: 501}
    with SyncAdmin(**FAST, opener=cluster.open) as admin:
        assert admin.list_topics() == ["t"]


def test_errors_come_to_the_caller() -> None:
    cluster = FakeCluster({"t": 1})
    with producer(cluster, value_serializer="json", max_block_ms=50) as target:
        with pytest.raises(SerializationError):
            target.send("t", object())
        heard: list[Any] = []
        delivery = target.send("nope", 1, on_delivery=lambda *outcome: heard.append(outcome))
        with pytest.raises(Exception, match="topic nope"):
            delivery.result(10)
        assert heard[0][0] is None
    with pytest.raises(ClientClosedError):
        target.send("t", 1)
    target.close()


def test_an_on_delivery_that_raises_stops_no_later_delivery(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("mine")

    cluster = FakeCluster({"t": 1})
    with producer(cluster, max_block_ms=50) as target:
        for partition in (-1, 0):
            target.send("t", b"1", partition=partition, on_delivery=fail)
        assert target.send_and_wait("t", b"2").offset == 1
        target.flush(10)
    assert caplog.text.count("on_delivery failed") == 2


def test_a_cluster_that_is_away_is_named_and_no_thread_stays() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.unreachable = {1, 2}
    with pytest.raises(NoBrokersAvailableError, match="fake:9001"), producer(cluster):
        pass
    assert not [each for each in threading.enumerate() if each.name == "kafkalite-client"]


def test_waiting_for_a_delivery_ends_in_time() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].append(HANG)
    target = producer(cluster)
    target.connect()
    with pytest.raises(ClientTimeoutError, match=r"not delivered within 0\.05 s"):
        target.send("t", b"x").result(0.05)
    target.close(timeout=0)


def test_the_caller_waits_for_slow_brokers() -> None:
    cluster = FakeCluster({"t": 1})
    cluster.script[ApiKey.PRODUCE].extend([HANG] * 100)
    target = producer(cluster, buffer_memory=1 << 20, max_block_ms=100)
    target.connect()
    with pytest.raises(BufferFullError):
        for _ in range(20_000):
            target.send("t", b"x" * 1000)
    assert target.statistics()["queued_bytes"] <= 8 << 20
    target.close(timeout=0)


def test_clients_share_one_loop_thread() -> None:
    cluster = FakeCluster({"t": 1})
    with producer(cluster), producer(cluster):
        assert len([each for each in threading.enumerate() if each.name == "kafkalite-client"]) == 1
    assert LoopThread._shared is None
    with producer(cluster) as target:
        target.send("t", b"x")
    assert values_in(cluster, T0) == [b"x"]


def test_a_program_subclasses_a_blocking_client() -> None:
    class Counting(SyncProducer):
        sent = 0

        def send_counted(self, topic: str, value: bytes) -> None:
            self.sent += 1
            self.send(topic, value)

    cluster = FakeCluster({"t": 1})
    with Counting.from_config({"bootstrap.servers": "fake:9001"}, opener=cluster.open) as target:
        target.send_counted("t", b"x")
    assert target.sent == 1 and values_in(cluster, T0) == [b"x"]

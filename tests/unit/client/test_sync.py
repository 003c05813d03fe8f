"""Blocking clients: same results and errors, records in order, memory bounded."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.client import RebalanceListener, SyncAdmin, SyncConsumer, SyncProducer
from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.client.errors import (
    BufferFullError,
    ClientClosedError,
    ClientTimeoutError,
    NoBrokersAvailableError,
    RecordDeserializationError,
    SerializationError,
)
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import fill
from tests.unit.client.fake_broker import HANG, FakeCluster, values_in
from tests.unit.client.group.scripted_group import beat, commit_answer, commits, committed, group_cluster
from tests.unit.client.hostile_broker import Always

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
    statistics = target.statistics()
    assert statistics["queued_bytes"] <= 1 << 20 and statistics["buffered_bytes"] <= (1 << 20) + 1100
    target.close(timeout=0)


def test_records_of_all_kinds_keep_their_order_and_have_their_fate() -> None:
    """Some are put into their batches together, some alone: headers, another partition, a full batch, no choice of a partition."""
    cluster = FakeCluster({"t": 3})
    heard: list[int] = []
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    chance = random.Random(7)
    with producer(cluster, batch_size=300, linger_ms=1) as target:
        deliveries = []
        for number in range(600):
            partition, value = chance.choice([0, 0, 1, 2]), b"%d" % number * chance.choice([1, 3, 200])
            sent[partition].append(value)
            options: dict[str, Any] = chance.choice(
                [{}, {}, {"headers": [("h", b"x"), ("n", None)]}, {"timestamp_ms": 7}, {"key": b"k"}]
            )
            if chance.random() < 0.3:
                options["on_delivery"] = lambda metadata, error, number=number: heard.append(number)
            deliveries.append(target.send("t", value, partition=partition, **options))
        target.flush(10)
        counts = dict.fromkeys(sent, 0)
        for delivery in deliveries:
            metadata = delivery.result()
            assert metadata.offset == counts[metadata.partition] and delivery.exception() is None
            counts[metadata.partition] += 1
        assert target.statistics()["queued_bytes"] == target.statistics()["buffered_bytes"] == 0
    assert {number: values_in(cluster, TopicPartition("t", number)) for number in sent} == sent
    assert len(heard) == len(set(heard)) > 100


def test_a_record_that_cannot_be_written_fails_alone() -> None:
    cluster = FakeCluster({"t": 1})
    heard: list[Any] = []
    with producer(cluster) as target:
        target.send_and_wait("t", b"0")
        deliveries = [
            target.send("t", b"%d" % number, partition=0, timestamp_ms=1 << 80 if number % 3 == 2 else 5)
            for number in range(1, 9)
        ]
        late = target.send(
            "t", b"9", partition=0, timestamp_ms=1 << 80, on_delivery=lambda *outcome: heard.append(outcome)
        )
        target.flush(10)
        assert [type(each.exception()) for each in deliveries] == [type(None), OverflowError, type(None)] * 2 + [
            type(None),
            OverflowError,
        ]
        assert late.done() and heard == [(None, late.exception())]
        assert target.statistics()["queued_bytes"] == 0
    assert values_in(cluster, T0) == [b"0", b"1", b"3", b"4", b"6", b"7"]


def test_a_send_that_was_interrupted_before_the_loop_heard_of_it_stops_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster({"t": 1})

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with producer(cluster) as target:
        target.send_and_wait("t", b"0")
        for number in (1, 2):
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(LoopThread._shared.loop, "call_soon_threadsafe", interrupt)  # type: ignore[union-attr]
                target.send("t", b"%d" % number)
        assert target.send("t", b"3").result(10).offset == 3
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(LoopThread._shared.loop, "call_soon_threadsafe", interrupt)  # type: ignore[union-attr]
            target.send("t", b"4")
        target.flush(10)
        assert values_in(cluster, T0) == [b"0", b"1", b"2", b"3", b"4"]


def test_an_interrupted_poll_loses_no_record() -> None:
    interrupts = [KeyboardInterrupt]

    def decode(value: bytes) -> bytes:
        if value == b"5" and interrupts:
            raise interrupts.pop()
        return value

    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 10)
    options = {**FAST, "opener": cluster.open, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
    with SyncConsumer(**options, value_deserializer=decode) as reader:
        reader.assign([T0])
        found: list[int] = []
        interrupted = 0
        while len(found) < 10:
            try:
                found += [each.offset for records in reader.poll(timeout_ms=5000).values() for each in records]
            except KeyboardInterrupt:
                interrupted += 1
        assert found == list(range(10)) and interrupted == 1


def test_a_deserializer_that_would_wait_for_the_loop_is_refused() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 3)
    options = {**FAST, "opener": cluster.open, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
    with SyncConsumer(**options, value_deserializer=lambda value: reader.end_offsets([T0])) as reader:
        reader.assign([T0])
        with pytest.raises(RecordDeserializationError, match="call it on another thread"):
            reader.poll(timeout_ms=5000)
        assert reader.end_offsets([T0]) == {T0: 3}


def test_clients_share_one_loop_thread() -> None:
    cluster = FakeCluster({"t": 1})
    with producer(cluster), producer(cluster):
        assert len([each for each in threading.enumerate() if each.name == "kafkalite-client"]) == 1
    assert LoopThread._shared is None
    with producer(cluster) as target:
        target.send("t", b"x")
    assert values_in(cluster, T0) == [b"x"]


def group_reader(cluster: FakeCluster, **options: Any) -> SyncConsumer:
    for key in ApiKey:
        cluster.script[key] = cluster.script[key] or Always(None)
    chosen = {
        **FAST,
        "opener": cluster.open,
        "group_id": "g",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,
        **options,
    }
    return SyncConsumer(**{"auto_offset_reset": "earliest", **chosen})


def test_a_call_in_a_callback_that_would_wait_for_its_own_thread_is_refused() -> None:
    """It would wait for ever, and with it all clients of the process."""
    cluster = group_cluster(offset_commit=commit_answer())
    heard: list[str] = []
    done = threading.Event()

    def try_all(*calls: Callable[[], Any]) -> None:
        for call in calls:
            with pytest.raises(RuntimeError, match="call it on another thread") as refused:
                call()
            heard.append(str(refused.value).split()[0])

    with group_reader(cluster) as reader, producer(cluster) as target:
        target.send_and_wait("t", b"1")

        def on_delivery(*_: Any) -> None:
            try_all(target.flush, target.close, lambda: target.send_and_wait("t", b"3"))
            target.send("t", b"4", on_delivery=lambda *_: done.set())

        target.send("t", b"2", on_delivery=on_delivery)
        assert done.wait(10)
        target.flush(10)
        assert values_in(cluster, T0) == [b"1", b"2", b"3", b"4"]
        assert heard == ["SyncProducer._flush", "SyncProducer._close", "SyncProducer._wait_for"]

        def on_commit(*_: Any) -> None:
            reader.seek(T0, 2)
            try_all(reader.commit, lambda: reader.poll(10), reader.close)
            done.set()

        reader.assign([T0])
        assert reader.getone().offset == 0
        done.clear()
        reader.commit_async(callback=on_commit)
        assert done.wait(10) and heard[3:] == ["Consumer.commit", "Consumer.getmany", "Consumer.close"]
        assert reader.getone().offset == 2


def test_a_send_in_a_callback_does_not_wait_for_room_that_its_thread_is_to_make() -> None:
    cluster = FakeCluster({"t": 1})
    heard: list[Any] = []

    def fill_queue(*_: Any) -> None:
        try:
            for _ in range(100):
                target.send("t", bytes(900_000))
        except BufferFullError as problem:
            heard.append(str(problem))

    with producer(cluster) as target:
        target.send("t", b"x", on_delivery=fill_queue)
        target.flush(10)
        assert heard == ["no room for a record within 0 s"]


def test_records_of_a_partition_that_was_given_up_are_not_given_after_it_is_back() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 10)
    options = {**FAST, "opener": cluster.open, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
    with SyncConsumer(**options) as reader:
        reader.assign([T0])
        assert [next(reader).offset for _ in range(3)] == [0, 1, 2]
        reader.unsubscribe()
        reader.assign([T0])
        assert reader.position(T0, 10) == 0
        assert next(reader).offset == 0


def test_a_partition_that_was_lost_and_is_back_is_committed_where_it_is_read_now() -> None:
    """Another member has read on to 5 meanwhile: the group's offset must not go back."""
    calm, cut, is_read = beat(), beat(ErrorCode.UNKNOWN_MEMBER_ID), threading.Event()
    known = iter([-1, 5])
    cluster = group_cluster(
        heartbeat=lambda *asked: (cut if is_read.is_set() else calm)[0](*asked),
        offset_commit=commit_answer(),
        offset_fetch=lambda broker, request: committed(broker, request, next(known)),
    )
    fill(cluster, T0, 10, batch_records=10)
    with group_reader(cluster, heartbeat_interval_ms=50, enable_auto_commit=True) as reader:
        reader.subscribe("t")
        assert next(reader).offset == 0
        is_read.set()
        deadline = time.monotonic() + 10
        while len(cluster.requests_of(ApiKey.OFFSET_FETCH)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert reader.position(T0, 10) == 5
        reader.pause(T0)
        reader.resume(T0)
        assert next(reader).offset == 5
    assert [offset for _, _, offset in commits(cluster)] == [6]


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


def test_a_listener_commits_while_a_blocking_consumer_is_closed() -> None:
    cluster = group_cluster(offset_commit=commit_answer())
    fill(cluster, T0, 9)
    target = group_reader(cluster)

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            target.close()  # it is closed already; this waits for nothing
            target.commit({T0: 7})

    target.subscribe(["t"], listener=Listener())
    assert next(target).offset == 0
    target.close()
    assert commits(cluster) == [(1, "m1", 7)]
    with pytest.raises(ClientClosedError):
        target.commit({T0: 8})


def test_unsubscribing_does_not_commit_what_a_loop_has_not_been_given() -> None:
    cluster = group_cluster(offset_commit=commit_answer())
    fill(cluster, T0, 9)
    target = group_reader(cluster, enable_auto_commit=True)
    target.subscribe(["t"])
    assert [next(target).offset, next(target).offset] == [0, 1]
    target.unsubscribe()
    target.close()
    assert set(commits(cluster)) == {(1, "m1", 2)}


def test_positions_are_committed_while_all_polls_read_what_is_buffered() -> None:
    cluster = group_cluster(offset_commit=commit_answer())
    fill(cluster, T0, 500, batch_records=500)
    with group_reader(cluster, enable_auto_commit=True, auto_commit_interval_ms=20) as reader:
        reader.subscribe("t")
        seen = [reader.getone().offset]
        deadline = time.monotonic() + 10
        while not any(offset for _, _, offset in commits(cluster)) and time.monotonic() < deadline:
            seen += [each.offset for records in reader.poll(1000, max_records=1).values() for each in records]
            time.sleep(0.002)
        assert seen == list(range(len(seen))) and 0 < commits(cluster)[-1][2] < len(seen) < 500
        assert len(cluster.requests_of(ApiKey.FETCH)) < 20

"""Requests that repeat each other are appended together, and answered, byte for byte, as if each had been served alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.produce.fast_path import FastPath
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.histogram import Histogram
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.testing.simulation import virtual_time
from tests.case import case
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.broker.produce.fast_path_broker import METADATA, Broker, Peer, SilentSender, produce, run, template_of
from tests.unit.storage.logs import all_bytes, check_files, headers_of


def test_answers_are_those_of_requests_that_are_served_alone(tmp_path: Path) -> None:
    async def answers(broker: Broker, version: int, acks: int, client_id: str | None, repeats: bool) -> list[bytes]:
        peer = Peer(broker)
        if not repeats:
            peer.serve_alone()
        found = []
        for number, value in enumerate((b"", b"a" * 60, b"b" * 200, b"c" * 9000)):
            peer.send(produce(value, version=version, acks=acks, client_id=client_id, correlation_id=number))
            await virtual_time.settle()
            found += peer.answers()
        assert len(broker.served) == (1 if repeats else 4)
        broker.served.clear()
        return found

    async def act(broker: Broker) -> None:
        for version in range(3, 12):
            for acks, client_id in ((1, "me"), (-1, None), (1, "")):
                with case(f"version {version}, acks {acks}, client {client_id!r}"):
                    alone = await answers(broker, version, acks, client_id, repeats=False)
                    broker.logs[0].truncate_fully_and_start_at(0)
                    assert await answers(broker, version, acks, client_id, repeats=True) == alone
                    broker.logs[0].truncate_fully_and_start_at(0)

    run(tmp_path, act)


def test_requests_of_one_turn_are_one_write_for_each_partition(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer(produce(index=number % 2)) for number in range(10)]
        broker.disk.sizes.clear()
        for number, peer in enumerate(peers):
            peer.send(produce(b"%d" % number, index=number % 2, correlation_id=number))
        assert not any(peer.answers() for peer in peers) and not broker.disk.sizes
        await virtual_time.settle()
        told = [peer.list_outcomes() for peer in peers]
        assert told == [[(number, ErrorCode.NONE, 5 + number // 2)] for number in range(10)]
        assert len(broker.disk.sizes) == 2 and not broker.served
        assert broker.dispatcher.latencies[ApiKey.PRODUCE].count == 20
        assert broker.parts.traffic.topics["t"].records_in == 20

    broker = run(tmp_path, act)
    for log in broker.logs:
        assert [(each.base_offset, each.partition_leader_epoch) for each in headers_of(log)] == [
            (offset, 4) for offset in range(10)
        ]
        assert log.high_watermark == 10
        check_files(log)


def test_what_is_not_plain_is_served_as_any_other_and_in_its_place(tmp_path: Path) -> None:
    damaged = bytearray(produce(correlation_id=11))
    damaged[-1] ^= 1
    others = {
        "damaged": (bytes(damaged), ErrorCode.CORRUPT_MESSAGE, -1),
        "compressed": (produce(bytes(100), correlation_id=11, codec=Codec.GZIP), ErrorCode.NONE, 2),
        "two records": (produce(correlation_id=11, count=2), ErrorCode.NONE, 2),
        "too old": (
            produce(batch=bytes(build_batch([NewRecord(b"k", b"v", 3)])), correlation_id=11),
            ErrorCode.INVALID_TIMESTAMP,
            -1,
        ),
        "too large": (produce(bytes(3000), correlation_id=11), ErrorCode.MESSAGE_TOO_LARGE, -1),
    }

    async def act(broker: Broker, other: bytes, code: ErrorCode, offset: int) -> None:
        peer = await broker.peer()
        quick = await broker.peer()
        for number, request in enumerate((produce(correlation_id=10), other, produce(correlation_id=12))):
            peer.send(request)
            quick.send(produce(correlation_id=20 + number))
        await virtual_time.settle()
        assert [each[0] for each in quick.list_outcomes()] == [20, 21, 22]
        assert broker.served == [11, 12]
        told = peer.list_outcomes()
        assert [each[:2] for each in told] == [(10, ErrorCode.NONE), (11, code), (12, ErrorCode.NONE)]
        assert (told[1][2] < 0) == (offset < 0) and told[0][2] < told[2][2]
        assert offset < 0 or told[0][2] < told[1][2] < told[2][2]

    config = TopicConfig(max_message_bytes=2000, message_timestamp_before_max_ms=1000)
    for name, (request, code, offset) in others.items():
        with case(name):
            run(tmp_path / name, lambda broker, other=(request, code, offset): act(broker, *other), config)  # type: ignore[misc]


def test_nothing_overtakes_what_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce(correlation_id=1))
        peer.send(METADATA)  # another API in the same turn
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [1, 9]
        peer.send(produce(correlation_id=2))
        peer.send(produce(correlation_id=3, index=1))  # of another template
        assert [each[0] for each in peer.list_outcomes()] == [2, 3]
        broker.served.clear()
        peer.send(produce(correlation_id=4, index=1))
        peer.send(METADATA, produce(correlation_id=5, index=1), produce(correlation_id=6, index=1))  # three in one read
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [4, 9]
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, 0, 2), (6, 0, 3)] and broker.served == [9]
        peer.send(METADATA, produce(correlation_id=7, index=1), METADATA, produce(correlation_id=8, index=1))
        assert [int.from_bytes(each[4:8], "big") for each in peer.answers()] == [9, 7, 9]
        await virtual_time.settle()
        assert peer.list_outcomes() == [(8, 0, 5)]

    run(tmp_path, act)


def test_a_partition_that_changed_hands_in_the_turn_is_not_appended_to(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        broker.partition().resign()
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        del broker.parts.replicas.partitions[broker.partition().topic_partition]
        peer.send(produce())
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]

    assert run(tmp_path, act).logs[0].log_end_offset == 1


def test_a_failed_write_fails_all_requests_in_it_and_no_others(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        other = await broker.peer(produce(index=1))
        before = all_bytes(broker.logs[0])
        other.send(produce(index=1))  # first in the turn, for which there is room
        for peer in peers:
            peer.send(produce())
        broker.disk.room = 150
        await virtual_time.settle()
        assert other.list_outcomes() == [(5, ErrorCode.NONE, 1)]
        for peer in peers:
            assert peer.list_outcomes() == [(5, ErrorCode.KAFKA_STORAGE_ERROR, -1)]
        assert all_bytes(broker.logs[0]) == before
        broker.disk.room = None
        for peer in peers:
            peer.send(produce())
        await virtual_time.settle()
        assert [peer.list_outcomes()[0][2] for peer in peers] == [3, 4, 5]

    check_files(run(tmp_path, act).logs[0])


def test_what_nobody_expected_is_reported_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()

        def fail(*arguments: Any) -> int:
            raise ZeroDivisionError

        monkeypatch.setattr(Partition, "append_plain", fail)
        with virtual_time.expected_errors() as errors:
            peer.send(produce())
            await virtual_time.settle()
        assert peer.list_outcomes() == [(5, ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
        assert len(errors.contexts) == 1

    run(tmp_path, act)


def test_producers_with_numbers_are_told_of_what_they_sent_before(tmp_path: Path) -> None:
    def numbered(sequence: int, correlation_id: int) -> bytes:
        return produce(correlation_id=correlation_id, producer_id=7, producer_epoch=0, base_sequence=sequence)

    async def act(broker: Broker) -> None:
        peer = await broker.peer(numbered(0, 0))
        peer.send(numbered(1, 1))
        await virtual_time.settle()
        assert peer.list_outcomes() == [(1, 0, 1)] and not broker.served
        peer.send(numbered(1, 2))  # again
        peer.send(numbered(2, 3))
        peer.send(numbered(5, 4))
        await virtual_time.settle()
        assert peer.list_outcomes() == [(2, 0, 1), (3, 0, 2), (4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
        broker.served.clear()
        peer.send(numbered(3, 5))
        peer.send(numbered(4, 6), numbered(5, 7))  # three of one turn
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, 0, 3), (6, 0, 4), (7, 0, 5)] and not broker.served
        other = await broker.peer(produce(index=1))
        other.send(produce())
        await virtual_time.settle()
        other.answers()
        peer.send(numbered(8, 7))  # too early
        other.send(numbered(9, 7))  # follows only that
        await virtual_time.settle()
        for each in (peer, other):
            assert each.list_outcomes() == [(7, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
        peer.send(numbered(6, 8), numbered(6, 9), numbered(7, 10))
        peer.send(numbered(8, 11), numbered(10, 12))
        await virtual_time.settle()
        assert [each[1:] for each in peer.list_outcomes()] == [
            (0, 7),
            (0, 7),
            (0, 8),
            (0, 9),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        ]

    run(tmp_path, act)


@pytest.mark.parametrize(
    "config",
    [
        TopicConfig(cleanup_policy="compact"),
        TopicConfig(compression_type="gzip"),
        TopicConfig(message_timestamp_type="LogAppendTime"),
    ],
    ids=["compacted", "another codec", "append time"],
)
def test_topics_that_change_or_refuse_records_are_served_as_ever(tmp_path: Path, config: TopicConfig) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        await virtual_time.settle()
        assert peer.list_outcomes() == [(5, 0, 1)] and broker.served == [5]

    run(tmp_path, act, config)


def test_a_quota_silences_who_repeats_itself(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        broker.parts.quotas.take(QuotaEntity(client_id="me"), {"producer_byte_rate": 1.0})
        peer.send(produce())
        await virtual_time.settle()
        assert broker.served == [5] and len(peer.answers()) == 1 and not peer.transport.reading

    run(tmp_path, act)


def test_where_request_time_is_measured_each_request_is_served_alone(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        for around, served in ((lambda api, handle: handle, [5]), (None, [])):
            broker.dispatcher.run_within(around)
            peer.send(produce())
            await virtual_time.settle()
            assert broker.served == served and len(peer.answers()) == 1
            broker.served.clear()

    run(tmp_path, act)


def test_a_connection_that_is_gone_has_its_records_appended(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        peer.connection.connection_lost(None)
        await virtual_time.settle()
        assert not peer.answers()

    assert run(tmp_path, act).logs[0].log_end_offset == 2


def test_a_stop_serves_what_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer()
        peer.send(produce())
        broker.dispatcher.cancel_all()
        assert peer.list_outcomes() == [(5, ErrorCode.NONE, 1)]

    run(tmp_path, act)


def test_a_turn_takes_no_more_than_it_can_serve_at_once(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        for _ in range(200):
            for peer in peers:
                peer.send(produce())
        assert sum(len(peer.answers()) for peer in peers) == 512
        await virtual_time.settle()
        assert sum(len(peer.answers()) for peer in peers) == 88

    run(tmp_path, act)


def test_a_segment_that_is_full_is_followed_by_another(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer() for _ in range(3)]
        for _ in range(10):
            for peer in peers:
                peer.send(produce(bytes(100)))
            await virtual_time.settle()

    log = run(tmp_path, act, TopicConfig(segment_bytes=700)).logs[0]
    assert len(log.segments) > 4 and log.log_end_offset == 33
    assert max(segment.size for segment in log.segments) <= 700
    check_files(log)


def test_a_turn_is_scheduled_once() -> None:
    scheduled: list[Callable[[], None]] = []
    fast_path = FastPath(MemoryParts(), Histogram(), now_s=lambda: 0.0, schedule=scheduled.append)
    template, sender = template_of(produce()), SilentSender()
    assert template is not None
    fast_path.accept_request(sender, template, b"", 0)
    fast_path.accept_request(sender, template, b"", 0)
    assert len(scheduled) == 1

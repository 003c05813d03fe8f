"""Brokers that lie, babble or refuse for ever: a consumer names the error or tries again with pauses, and forgets no record in silence."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    TRANSACTIONAL,
    NewRecord,
    assemble_batch,
    build_batch,
)
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.hostile_broker import REQUESTS_A_SECOND, SECONDS, T0, Always, consumer, metadata_answer, run


def filled(*batches: Any, **facts: Any) -> FakeCluster:
    cluster = FakeCluster({"t": 1}, brokers=1)
    for each in batches:
        cluster.append(T0, each)
    return cluster


def partition_data(**facts: Any) -> Any:
    m = messages.fetch_response
    given = m.PartitionData(partition_index=facts.pop("partition_index", 0), **facts)
    topic = m.FetchableTopicResponse(topic="t", topic_id=bytes(15) + b"\1", partitions=[given])
    return m.FetchResponse(responses=[topic])


def offsets_answer(*partitions: Any) -> Any:
    m = messages.list_offsets_response
    return m.ListOffsetsResponse(topics=[m.ListOffsetsTopicResponse(name="t", partitions=list(partitions))])


def offset_of(**facts: Any) -> Any:
    return messages.list_offsets_response.ListOffsetsPartitionResponse(partition_index=0, **facts)


FETCH, LIST, METADATA = ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA
ENDLESS: dict[str, dict[ApiKey, Any]] = {
    "nothing, and at once": {FETCH: partition_data()},
    "no partitions at all": {FETCH: messages.fetch_response.FetchResponse()},
    "another partition than asked": {FETCH: partition_data(partition_index=7)},
    "no session": {FETCH: messages.fetch_response.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)},
    "out of range": {FETCH: partition_data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)},
    "not the leader": {FETCH: partition_data(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)},
    "the fetch ends the connection": {FETCH: lambda *_: ConnectionError("gone")},
    "offsets of nothing": {LIST: messages.list_offsets_response.ListOffsetsResponse()},
    "no offset, and no end": {LIST: offsets_answer(offset_of(offset=-1))},
    "offsets beyond everything": {
        LIST: offsets_answer(offset_of(offset=2**63 - 1)),
        FETCH: partition_data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    },
    "a leader that there is not": {METADATA: metadata_answer(leader=99)},
    "no leader": {METADATA: metadata_answer(leader=-1)},
    "brokers that cannot be reached": {METADATA: metadata_answer(leader=3, brokers=40)},
    "no brokers any more": {METADATA: None},
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_consumer_pauses_between_questions_that_lead_nowhere(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            for key, answer in ENDLESS[kind].items():
                if kind == "no brokers any more":
                    cluster.unreachable.add(1)
                    cluster.connections[0].close()
                cluster.script[key] = Always(answer)
            before = len(cluster.requests)
            target.assign([T0])
            assert await target.getmany(timeout_ms=SECONDS * 1000) == {}
            assert len(cluster.requests) - before < SECONDS * REQUESTS_A_SECOND

    run(scenario)


def raw_batch(body: bytes, count: int, **facts: Any) -> bytearray:
    fields = {
        "last_offset_delta": count - 1,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "base_offset": 0,
        "leader_epoch": 0,
        "attributes": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        **facts,
    }
    return assemble_batch(body, records_count=count, **fields)


def records(*deltas: int) -> bytes:
    return b"".join(encode_record(0, delta, b"k", b"%d" % delta) for delta in deltas)


BAD_MARKER = raw_batch(b"", 1, attributes=CONTROL | TRANSACTIONAL, producer_id=1)
NAMED: dict[str, tuple[Any, str]] = {
    "a code that nobody knows": ({"error_code": 999}, "unknown error code 999"),
    "bytes that are no batch": ({"records": b"x" * 100}, "CORRUPT_MESSAGE|no batch"),
    "a part of a batch": ({"records": bytes(build_batch([NewRecord(b"k", b"v")])[:40])}, "does not fit"),
    "a batch below the offset asked for": ({"records": "below"}, "does not fit"),
    "a batch that grows without bound": ({"records": "bomb"}, "limit of 104857600"),
    "an offset behind the last": ({"records": bytes(raw_batch(records(0), 1, base_offset=2**63 - 1))}, "ends at"),
    "an end before its beginning": (
        {"records": bytes(raw_batch(records(0), 1, base_offset=50, last_offset_delta=-3))},
        "has offsets from 50",
    ),
    "fewer records than it counts": ({"records": bytes(raw_batch(records(0), 5))}, "cannot be read"),
    "a negative count": ({"records": bytes(raw_batch(records(0), -1, last_offset_delta=3))}, "cannot be read"),
    "a wrong CRC": ({"records": bytes(raw_batch(records(0), 1)[:-1] + b"x")}, "CRC"),
    "a marker that is none": ({"records": bytes(BAD_MARKER)}, "no marker"),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_cannot_be_read_is_named(kind: str) -> None:
    facts, words = NAMED[kind]
    if facts.get("records") == "below":
        facts = {"records": bytes(build_batch([NewRecord(b"k", b"v")]))}
    elif facts.get("records") == "bomb":
        facts = {"records": bytes(build_batch([NewRecord(None, bytes(120_000_000))], codec=Codec.ZSTD))}

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            cluster.script[FETCH] = Always(partition_data(high_watermark=10, **facts))
            target.assign([T0])
            if "below" in kind:
                target.seek(T0, 7)
            with pytest.raises(ClientError, match=words):
                while await target.getmany(timeout_ms=5000):
                    pass
            with pytest.raises(ClientError, match=words):  # and not skipped: it stays until somebody seeks
                await target.getmany(timeout_ms=5000)
            assert cluster.script[FETCH].count < 20

    run(scenario, filled())


def test_records_before_a_marker_that_cannot_be_read_are_not_lost() -> None:
    good = build_batch([NewRecord(b"k", b"v")])
    bad = raw_batch(b"", 1, attributes=CONTROL | TRANSACTIONAL, producer_id=1)

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            found = await target.getmany(timeout_ms=1000)
            assert [each.offset for each in found[T0]] == [0]
            with pytest.raises(ClientError, match="no marker"):
                await target.getmany(timeout_ms=1000)

    run(scenario, filled(good, bad))


@pytest.mark.parametrize("deltas", [(0, 5, 2, 1), (0, 0, 0, 0), (3, 2, 1, 0), (0, -900, 7, 1_000_000)])
def test_offsets_in_no_order_move_the_position_neither_back_nor_beyond_the_batch(deltas: tuple[int, ...]) -> None:
    """Apache Kafka stores batches with any offset deltas."""

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster, max_poll_records=1) as target:
            target.assign([T0])
            position, seen = 0, 0
            while position < 8:
                found = await target.getmany(timeout_ms=1000)
                seen += sum(map(len, found.values()))
                now = await target.position(T0)
                assert position <= now <= 8
                position = now
            assert seen <= 8

    batch = raw_batch(records(*deltas), len(deltas))
    run(scenario, filled(build_batch([NewRecord(b"k", b"v")] * 4), batch))


def test_batches_in_no_order_do_not_move_the_position_back() -> None:
    one = [build_batch([NewRecord(b"k", b"v")] * 10, base_offset=offset) for offset in (20, 0, 25, 10)]

    async def scenario(cluster: FakeCluster) -> None:
        async with consumer(cluster) as target:
            cluster.script[FETCH] = deque(
                [lambda *_: partition_data(records=b"".join(map(bytes, one)), high_watermark=50)]
            )
            target.assign([T0])
            position = 0
            for _ in range(6):
                await target.getmany(timeout_ms=100, max_records=3)
                now = await target.position(T0)
                assert now >= position
                position = now

    run(scenario)

"""Brokers that take no records or say so: a producer fails in time and without haste, and never writes again what is in flight."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from crc32c import crc32c

from kafkalite.client.errors import ClientError, ClientTimeoutError
from kafkalite.client.producer.producer import Producer
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.fake_broker import HANG, FakeCluster
from tests.unit.client.hostile_broker import REQUESTS_A_SECOND, SECONDS, Always, metadata_answer, run


def producer(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(
        bootstrap_servers="fake:9001",
        opener=cluster.open,
        chance=lambda: 0.5,
        **{"delivery_timeout_ms": SECONDS * 1000, "request_timeout_ms": 2000, **options},
    )


def produced(**facts: Any) -> Any:
    m = messages.produce_response
    answer = m.PartitionProduceResponse(**{"index": 0, "base_offset": -1, **facts})
    return m.ProduceResponse(
        responses=[m.TopicProduceResponse(name=facts.pop("topic", "t"), partition_responses=[answer])]
    )


def identity(**facts: Any) -> Any:
    return messages.init_producer_id_response.InitProducerIdResponse(**facts)


UNDELIVERED: dict[str, dict[ApiKey, Any]] = {
    "not the leader": {ApiKey.PRODUCE: produced(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)},
    "not enough replicas": {ApiKey.PRODUCE: produced(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)},
    "out of order": {ApiKey.PRODUCE: produced(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)},
    "unknown producer": {ApiKey.PRODUCE: produced(error_code=ErrorCode.UNKNOWN_PRODUCER_ID)},
    "too large": {ApiKey.PRODUCE: produced(error_code=ErrorCode.MESSAGE_TOO_LARGE)},
    "another partition": {ApiKey.PRODUCE: produced(index=5)},
    "nothing": {ApiKey.PRODUCE: messages.produce_response.ProduceResponse()},
    "a code that nobody knows": {ApiKey.PRODUCE: produced(error_code=999)},
    "no answer": {ApiKey.PRODUCE: lambda *_: HANG},
    "the connection ends": {ApiKey.PRODUCE: lambda *_: ConnectionError("gone")},
    "no producer id": {ApiKey.INIT_PRODUCER_ID: identity(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)},
    "a producer id that is none": {ApiKey.INIT_PRODUCER_ID: identity(producer_id=-1)},
    "a leader that there is not": {ApiKey.METADATA: metadata_answer(leader=99)},
}


@pytest.mark.parametrize("kind", UNDELIVERED)
def test_records_that_are_not_taken_fail_in_time_and_without_haste(kind: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for key, answer in UNDELIVERED[kind].items():
            cluster.script[key] = Always(answer)
        async with producer(cluster) as target:
            began_s = asyncio.get_running_loop().time()
            sent = [await target.send("t", b"%d" % n, partition=0) for n in range(8)]
            for each in sent:
                with pytest.raises(ClientError):
                    await each
            assert asyncio.get_running_loop().time() - began_s <= SECONDS + 3
            assert target.statistics()["failed_records"] == 8
            assert len(cluster.requests) < SECONDS * REQUESTS_A_SECOND

    run(scenario)


def test_an_offset_below_zero_is_no_offset() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.PRODUCE] = Always(produced(base_offset=-7))
        async with producer(cluster) as target:
            delivery = await target.send("t", b"v", partition=0)
            assert (await delivery).offset == -1

    run(scenario)


def test_bytes_in_flight_are_never_written_again() -> None:
    """A buffer that is used again while a request waits would bring its records to another topic (CVE-2026-35554)."""
    kept: list[tuple[Any, bytes, str]] = []

    def keep(_: int, request: Any) -> Any:
        return HANG if 4 < len(kept) < 30 else None  # a first batch is alone in flight until it is acknowledged

    async def scenario(cluster: FakeCluster) -> None:
        cluster.script[ApiKey.PRODUCE] = Always(keep)
        options = {"delivery_timeout_ms": 900, "request_timeout_ms": 300, "batch_size": 2000, "buffer_memory": 20_000}
        async with producer(cluster, **options) as target:
            message = target._sender._message

            def noted(batches: Any) -> Any:
                kept.extend((each.encoded, bytes(each.encoded), each.topic_partition.topic) for each in batches)
                return message(batches)

            target._sender._message = noted  # type: ignore[method-assign]
            for number in range(60):
                for topic in ("t", "u"):
                    try:
                        await target.send(topic, topic.encode() * 500 + b"%d" % number, partition=0)
                    except ClientTimeoutError:
                        pass
                await asyncio.sleep(0.05)
            await target.flush()

    run(scenario, FakeCluster({"t": 1, "u": 1}, brokers=1))
    assert len(kept) > 60
    for buffer, as_sent, topic in kept:
        assert bytes(buffer) == as_sent and topic.encode() * 500 in as_sent
        assert struct.unpack_from(">I", buffer, 17)[0] == crc32c(memoryview(buffer)[21:])

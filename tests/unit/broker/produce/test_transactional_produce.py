"""Produce with a transactional id: the first append of a transaction waits for its coordinator's word, and what that refuses is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.coordination.transaction_verification import Producer
from kafkalite.broker.handlers.produce import produce
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, build_marker
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts, context_of
from tests.unit.storage.logs import headers_of, new_log, produced

VERSION = 11


class Site:
    """A broker with partitions t-0 and t-1, whose verifier is on."""

    def __init__(self, path: Path, count: int = 2) -> None:
        self.logs = [new_log(path / str(number)) for number in range(count)]
        partitions = []
        for number, log in enumerate(self.logs):
            partition = make_partition(log, topic_partition=TopicPartition("t", number))  # type: ignore[arg-type]
            partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
            partitions.append(partition)
        self.partitions = partitions
        self.parts: Any = MemoryParts(*partitions)
        self.verifier = self.parts.transaction_verifier
        self.verifier.is_enabled = True
        self.context = context_of(VERSION)

    def send(self, *records: Any, transactional_id: str | None = "x", acks: int = 1) -> Any:
        m = messages.produce_request
        data = [m.PartitionProduceData(index=number, records=each) for number, each in enumerate(records)]
        request = m.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=[m.TopicProduceData(name="t", partition_data=data)],
        )
        return produce(self.parts, request, self.context)

    async def produce(self, *records: Any, **options: Any) -> list[ErrorCode]:
        reply = self.send(*records, **options)
        if asyncio.isfuture(reply):
            reply = await reply
        return [ErrorCode(each.error_code) for each in reply.responses[0].partition_responses]


def batch(sequence: int = 0, epoch: int = 3, attributes: int = TRANSACTIONAL, producer_id: int = 7) -> bytearray:
    return produced(producer_id, sequence, epoch=epoch, attributes=attributes)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    virtual_time.run(run())


def test_the_first_append_of_a_transaction_is_verified(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        assert await site.produce(batch(), batch()) == [0, 0]
        assert site.verifier.asked == [(Producer("x", 7, 3), [TopicPartition("t", 0), TopicPartition("t", 1)])]
        assert await site.produce(batch(1), batch(1)) == [0, 0]
        assert len(site.verifier.asked) == 1, "the transaction is open"
        marker = build_marker(commit=True, producer_id=7, producer_epoch=3, coordinator_epoch=0, timestamp=0)
        site.partitions[0].append(marker, 1, 0.0, 0, origin=AppendOrigin.COORDINATOR)
        assert await site.produce(batch(2), batch(2)) == [0, 0]
        assert site.verifier.asked[1:] == [(Producer("x", 7, 3), [TopicPartition("t", 0)])]

    play(scenario)


def test_it_waits_for_the_coordinator_and_is_overtaken_by_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        site.verifier.refusals = asyncio.get_running_loop().create_future()
        records = batch()
        reply = site.send(records, batch())
        assert site.context.connection.alone == 1
        records[:] = bytes(len(records))  # the buffer that all connections share
        await asyncio.sleep(1)
        assert headers_of(site.logs[0]) == []
        site.verifier.refusals.set_result({TopicPartition("t", 1): ErrorCode.TRANSACTION_ABORTABLE})
        codes = [each.error_code for each in (await reply).responses[0].partition_responses]
        assert codes == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
        assert [len(headers_of(log)) for log in site.logs] == [1, 0]

    play(scenario)


def test_a_marker_that_comes_meanwhile_wins(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        site.verifier.refusals = asyncio.get_running_loop().create_future()
        reply = site.send(batch())
        marker = build_marker(commit=False, producer_id=7, producer_epoch=3, coordinator_epoch=0, timestamp=0)
        site.partitions[0].append(marker, 1, 0.0, 0, origin=AppendOrigin.COORDINATOR)
        site.verifier.refusals.set_result({})
        (answer,) = (await reply).responses[0].partition_responses
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE
        assert site.logs[0].last_stable_offset == site.logs[0].log_end_offset == 1

    play(scenario)


@pytest.mark.parametrize(
    ("found", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_producers_of_every_age_understand_what_a_coordinator_refuses(
    tmp_path: Path, found: ErrorCode, version: int, told: ErrorCode
) -> None:
    async def scenario() -> None:
        site = Site(tmp_path, 1)
        site.context.api_version = version
        site.verifier.refusals = {TopicPartition("t", 0): found}
        assert await site.produce(batch()) == [told]
        assert headers_of(site.logs[0]) == []

    play(scenario)


def test_transactional_records_need_a_transactional_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        plain = batch(attributes=0)
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await site.produce(batch(), plain, transactional_id=None) == [refused, 0]
        assert await site.produce(batch(attributes=0)) == [0], "plain records with an id are plain"
        assert site.verifier.asked == []
        with pytest.raises(KafkaError, match="more than one producer"):
            site.send(batch(), batch(producer_id=8))

    play(scenario)


def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        site.verifier.is_enabled = False
        assert await site.produce(batch(), batch()) == [0, 0]
        assert site.verifier.asked == []

    play(scenario)


def test_what_is_fenced_or_elsewhere_is_told_as_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        assert await site.produce(batch(epoch=3)) == [0]
        site.partitions[1].resign()
        assert await site.produce(batch(0, epoch=2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await site.produce(batch(1), batch()) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert len(site.verifier.asked) == 1

    play(scenario)


def test_a_request_of_very_many_partitions_is_verified_as_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        site.context = context_of(VERSION, size=1 << 20)
        site.verifier.refusals = {TopicPartition("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
        codes = await site.produce(*(batch() for _ in range(1001)))
        assert codes[:2] == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
        assert set(codes[2:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert [partitions for _, partitions in site.verifier.asked] == [
            [TopicPartition("t", 0), TopicPartition("t", 1)]
        ]
        assert [len(headers_of(log)) for log in site.logs] == [1, 0] and site.context.connection.alone

    play(scenario)

"""Markers end transactions in real logs: who may write one, when it is answered, and what it does for groups' offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, read_marker
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import OFFSETS_TOPIC, TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import all_bytes, append, headers_of, new_log, produced

TP = TopicPartition("t", 0)
DATA = {"producer_id": 7, "epoch": 3, "attributes": TRANSACTIONAL}


def led(path: Path, topic_partition: TopicPartition = TP, isr: tuple[int, ...] = (1,), **config: Any) -> Partition:
    """Broker 1 leads, in leader epoch 4, a partition in which producer 7 wrote three records in a transaction."""
    log = new_log(path / topic_partition.topic, TopicConfig(**config))
    partition = make_partition(log, topic_partition=topic_partition)  # type: ignore[arg-type]
    partition.become_leader(assignment(leader_epoch=4, isr=isr), 0.0)
    append(log, produced(count=3, **DATA), epoch=4)
    partition.after_append(0, 0.0)
    return partition


def marker_request(
    *topic_partitions: TopicPartition, committed: bool = True, epoch: int = 3, coordinator_epoch: int = 5
) -> messages.write_txn_markers_request.WriteTxnMarkersRequest:
    m = messages.write_txn_markers_request
    topics = [m.WritableTxnMarkerTopic(name=topic, partition_indexes=[index]) for topic, index in topic_partitions]
    return m.WriteTxnMarkersRequest(
        markers=[
            m.WritableTxnMarker(
                producer_id=7,
                producer_epoch=epoch,
                transaction_result=committed,
                coordinator_epoch=coordinator_epoch,
                topics=topics,
            )
        ]
    )


async def codes(parts: MemoryParts, *topic_partitions: TopicPartition, **marker: Any) -> list[ErrorCode]:
    """The outcomes in the order of the question, over codec and dispatch."""
    (result,) = (await parts.ask(marker_request(*topic_partitions, **marker), 1)).markers
    assert result.producer_id == 7
    found = {(t.name, p.partition_index): p.error_code for t in result.topics for p in t.partitions}
    return [ErrorCode(found[each]) for each in topic_partitions]


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    virtual_time.run(run())


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_ends_the_transaction(tmp_path: Path, committed: bool) -> None:
    partition = led(tmp_path)
    log = partition.log
    assert (log.high_watermark, log.last_stable_offset) == (3, 0)

    async def scenario() -> None:
        assert await codes(MemoryParts(partition), TP, committed=committed) == [ErrorCode.NONE]

    play(scenario)
    assert (log.high_watermark, log.last_stable_offset) == (4, 4)
    header = headers_of(log)[-1]
    marker = read_marker(all_bytes(log), header)
    assert marker == (int(committed), 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.is_control and header.is_transactional and header.partition_leader_epoch == 4
    assert len(log.aborted_transactions(0, 4)) == (not committed)


def test_it_is_answered_once_the_marker_is_replicated(tmp_path: Path) -> None:
    partition = led(tmp_path, isr=(1, 2))
    parts = MemoryParts(partition)

    async def scenario() -> None:
        asked = asyncio.ensure_future(codes(parts, TP))
        await asyncio.sleep(1)
        assert not asked.done()
        partition.follower_fetched(2, 4, 0, 1000.0, NeverFetched())
        assert await asked == [ErrorCode.NONE]

    play(scenario)
    assert partition.log.last_stable_offset == 4


def test_a_marker_that_is_not_replicated_in_time(tmp_path: Path) -> None:
    """It may be committed yet, and then it counts for the offsets of groups."""
    offsets = TopicPartition(OFFSETS_TOPIC, 0)
    partition = led(tmp_path, offsets, isr=(1, 2))
    parts = MemoryParts(partition, request_timeout_ms="5000")

    async def scenario() -> None:
        began_s = asyncio.get_running_loop().time()
        assert await codes(parts, offsets) == [ErrorCode.REQUEST_TIMED_OUT]
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(5)
        assert parts.offsets_ended == []
        partition.follower_fetched(2, 4, 0, 6000.0, NeverFetched())
        assert parts.offsets_ended == [(0, 3, 7, True)]

    play(scenario)


def test_who_is_fenced_writes_no_marker(tmp_path: Path) -> None:
    partition = led(tmp_path)
    parts = MemoryParts(partition)

    async def scenario() -> None:
        assert await codes(parts, TP, epoch=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert partition.log.log_end_offset == 3
        assert await codes(parts, TP, coordinator_epoch=5) == [ErrorCode.NONE]
        assert await codes(parts, TP, coordinator_epoch=4) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        assert partition.log.log_end_offset == 4
        assert await codes(parts, TP, coordinator_epoch=6) == [ErrorCode.NONE], "sent again, it does no harm"
        assert await codes(parts, TP, epoch=9, coordinator_epoch=6, committed=False) == [ErrorCode.NONE]
        assert partition.log.producers.producers[7].epoch == 9, "whoever is left of epoch 3 is fenced"

    play(scenario)
    assert partition.log.aborted_transactions(0, 6) == []


def test_an_operator_ends_a_transaction_that_hangs(tmp_path: Path) -> None:
    partition = led(tmp_path)

    async def scenario() -> None:
        described = messages.describe_producers_request
        topic = described.TopicRequest(name="t", partition_indexes=[0])
        parts = MemoryParts(partition)
        reply = await parts.ask(described.DescribeProducersRequest(topics=[topic]), 0)
        (producer,) = reply.topics[0].partitions[0].active_producers
        assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (0, -1)
        assert await codes(parts, TP, committed=False, coordinator_epoch=-1) == [ErrorCode.NONE]

    play(scenario)
    assert partition.log.last_stable_offset == 4 and partition.log.producers.open_transactions == {}


def test_each_partition_has_its_own_outcome(tmp_path: Path) -> None:
    old = led(tmp_path, TopicPartition("old", 0))
    old.log.config = TopicConfig(message_format_version="0.10.2", message_format_acts=True)
    other = led(tmp_path, TopicPartition("other", 0))
    other.resign()
    few = led(tmp_path, TopicPartition("few", 0), min_insync_replicas=2)
    good = led(tmp_path)
    parts = MemoryParts(old, other, few, good)

    async def scenario() -> None:
        assert await codes(
            parts,
            TopicPartition("old", 0),
            TopicPartition("other", 0),
            TopicPartition("few", 0),
            TP,
            TopicPartition("t", 9),
        ) == [
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    play(scenario)

"""CopyRecords: batches of another cluster become a partition's own, at the offsets that they have; and who may send them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.handlers import copy_records
from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, set_offset_and_epoch_in_place
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import NAME, all_bytes, append, headers_of, new_log

CLIENTS = "CLIENT"
"""A listener that is not the one of brokers."""
EPOCH = 4
TIMEOUT_MS = 1000


def play(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return virtual_time.run(scenario())  # type: ignore[arg-type]


def led(log: PartitionLog, isr: tuple[int, ...] = (1,)) -> Partition:
    partition = make_partition(log, topic_partition=NAME)  # type: ignore[arg-type]
    partition.become_leader(assignment(leader_epoch=EPOCH, isr=isr), 0.0)
    return partition


def at(offset: int, count: int = 1, epoch: int = 99, **fields: Any) -> bytearray:
    """A batch as the other cluster has it."""
    batch = build_batch([NewRecord(b"k", b"v", 1000)] * count, **fields)
    set_offset_and_epoch_in_place(batch, 0, offset, epoch)
    return batch


def copy(records: bytes, end: int, topic: str = NAME.topic) -> messages.CopyRecordsRequest:
    return messages.CopyRecordsRequest(
        topic=topic, partition_index=NAME.partition, log_end_offset=end, timeout_ms=TIMEOUT_MS, records=records
    )


def ask(partition: Partition, request: messages.CopyRecordsRequest) -> Any:
    return play(lambda: MemoryParts(partition).ask(request, 0))


def outcome(response: Any) -> tuple[int, int]:
    return response.error_code, response.log_end_offset


def test_the_bytes_of_both() -> None:
    whole = bytes.fromhex("0274 00000003 0000000000000007 000003e8 03 7879 00")
    request = messages.CopyRecordsRequest(
        topic="t", partition_index=3, log_end_offset=7, timeout_ms=1000, records=b"xy"
    )
    assert b"".join(codec.encode_request(request, 0)) == whole
    response = messages.CopyRecordsResponse(error_code=1, log_end_offset=9)
    told = bytes.fromhex("00000000 0001 00 0000000000000009 00")
    assert b"".join(codec.encode_response(response, 0)) == told
    assert codec.decode_response(ApiKey.COPY_RECORDS, 0, told) == response


def test_batches_keep_all_but_their_leader_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    partition = led(log)
    first, second = at(0, 2, producer_id=7, producer_epoch=1, base_sequence=40), at(5, 3)
    assert outcome(ask(partition, copy(first + second, 0))) == (0, 8)
    assert [(each.base_offset, each.next_offset, each.partition_leader_epoch) for each in headers_of(log)] == [
        (0, 2, EPOCH),
        (5, 8, EPOCH),
    ]
    assert [each.producer_id for each in headers_of(log)] == [7, -1]
    for batch, offset in ((first, 0), (second, 5)):
        set_offset_and_epoch_in_place(batch, 0, offset, EPOCH)
    assert all_bytes(log) == bytes(first + second)
    assert log.high_watermark == 8, "no other replica is waited for"


def test_a_batch_that_is_cut_comes_with_the_next_request(tmp_path: Path) -> None:
    partition = led(new_log(tmp_path))
    assert outcome(ask(partition, copy(at(0) + at(1)[:65], 0))) == (0, 1)
    assert outcome(ask(partition, copy(at(1)[:65], 1))) == (0, 1)


def test_nothing_is_appended_unless_the_log_ends_where_the_sender_says(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log)
    partition = led(log)
    before = all_bytes(log)
    for records, end in ((at(0), 0), (at(2), 2), (at(0), 1), (at(5), 0)):
        assert outcome(ask(partition, copy(records, end))) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    empty = new_log(tmp_path / "empty")
    assert outcome(ask(led(empty), copy(at(0), 3))) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert all_bytes(log) == before


def test_damaged_batches_old_formats_and_internal_topics_are_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    partition = led(log)
    damaged = at(0)
    damaged[-1] ^= 1
    assert ask(partition, copy(damaged, 0)).error_code == ErrorCode.CORRUPT_MESSAGE
    old = bytearray(34)
    old[11], old[16] = 22, 1
    assert ask(partition, copy(bytes(old) * 3, 0)).error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    offsets = copy(at(0), 0, "__consumer_offsets")
    assert ask(partition, offsets).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert log.log_end_offset == 0


def test_too_few_replicas_in_sync_take_nothing(tmp_path: Path) -> None:
    partition = led(new_log(tmp_path, TopicConfig(min_insync_replicas=2)), isr=(1,))
    partition.replicas = (1, 2)
    assert outcome(ask(partition, copy(at(0), 0))) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)


def test_who_does_not_lead_appends_nothing(tmp_path: Path) -> None:
    partition = led(new_log(tmp_path))
    partition.resign()
    assert outcome(ask(partition, copy(at(0), 0))) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert ask(partition, copy(at(0), 0, "other")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_is_answered_when_the_replicas_in_sync_have_it(tmp_path: Path) -> None:
    partition = led(new_log(tmp_path), isr=(1, 2))

    async def scenario() -> None:
        parts = MemoryParts(partition)
        late = await parts.ask(copy(at(0), 0), 0)
        assert outcome(late) == (ErrorCode.REQUEST_TIMED_OUT, 1)
        waiting = asyncio.ensure_future(parts.ask(copy(at(1), 1), 0))
        await virtual_time.settle()
        assert not waiting.done() and partition.log.log_end_offset == 2
        partition.resign()
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scenario)


def test_it_needs_cluster_action_and_the_listener_of_brokers(tmp_path: Path) -> None:
    (served,) = copy_records.APIS
    assert (served.api.is_private, served.cluster_permission) == (True, CLUSTER_ACTION)
    partition = led(new_log(tmp_path))

    async def scenario() -> None:
        parts = MemoryParts(
            partition,
            listeners=f"PLAINTEXT://:9092,{CLIENTS}://:9093",
            listener_security_protocol_map=f"PLAINTEXT:PLAINTEXT,{CLIENTS}:PLAINTEXT",
            inter_broker_listener_name="PLAINTEXT",
        )
        with pytest.raises(ProtocolViolation, match=r"^unknown api key 20002$"):
            await parts.ask(copy(at(0), 0), 0, listener=CLIENTS)
        assert partition.log.log_end_offset == 0

    play(scenario)

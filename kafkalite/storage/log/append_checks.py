"""Checks before an append: of a client's batch, of batches that the broker made, and of those that a follower has from its leader."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kafkalite.config.topic import LONG_MAX, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import DecompressedTooLarge
from kafkalite.protocol.record_batches.legacy_messages import is_message_set, to_record_batch
from kafkalite.protocol.record_batches.produce_validation import DecompressionBudget, ProducedBatch, validate_produced
from kafkalite.protocol.record_batches.record_walk import TooMuchAtOnce
from kafkalite.protocol.record_batches.records import (
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    has_valid_crc,
    iter_batches,
    read_marker,
    set_max_timestamp_in_place,
    set_offset_and_epoch_in_place,
)
from kafkalite.storage.log import message_format
from kafkalite.storage.log.stored_batches import to_stored_batch
from kafkalite.storage.producers.producer_state import ProducedRange, ProducerState
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard
from kafkalite.types import Buffer

_MESSAGE_BYTES_AT_ONCE: Final = 64 * 1024
"""Bound for messages of the old formats, which take longer than batches: each is made again, in some 3 µs, and may have 34 bytes."""

_BATCHES_ONLY_FROM: Final = 3
"""Produce version from which records come as batches of format 2."""


class AppendOrigin(Enum):
    """Whose records a leader appends (Kafka's AppendOrigin): a client's are checked more strictly than those of a coordinator here."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class AppendResult(NamedTuple):
    """The place of appended records; `log_append_time_ms` is -1 unless the topic's timestamps are LogAppendTime.

    `duplicate` tells that the same batch was appended before: nothing was written, the offsets are the original ones.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class CheckedBatch(NamedTuple):
    """A client's batch after all checks that concern it alone, in the stored form of its topic."""

    records: bytearray | memoryview
    produced: ProducedBatch
    older: bytes | None = None
    """The messages for a log's beginning, if an older format is stored."""


ClientCheck: TypeAlias = DecompressionBudget | CheckedBatch | None
"""The check of a client's batch: on the event loop within a budget, where TooMuchAtOnce asks for another thread, or it was done
there; None: here and now, whatever it takes."""


class ClientsBatch(NamedTuple):
    """A client's batch as it is to be stored, or where the same batch was stored before."""

    records: bytearray | memoryview
    known: ProducedRange | None


def clients_batch(
    records: bytearray | memoryview,
    producers: ProducerState,
    config: TopicConfig,
    now_ms: int,
    log_append_time_ms: int,
    request_version: int,
    check: ClientCheck | None = None,
    guard: VerificationGuard = UNGUARDED,
    log_start_offset: int = 0,
) -> ClientsBatch:
    """Check what a client sent and give it the topic's stored form. KafkaError as `validate_produced`, `ProducerState.check`."""
    if isinstance(check, CheckedBatch):
        records, produced, _ = check
    else:
        at_once = check is not None
        if request_version < _BATCHES_ONLY_FROM and is_message_set(records):
            records = _rewritten(records, at_once)
        produced = validate_produced(records, config, now_ms, request_version, check, at_once)
        if at_once and config.message_format_acts and message_format.is_expensive(produced.header, config):
            raise TooMuchAtOnce
        records = _without_rest(records, produced)
    if produced.header.producer_id >= 0:
        # Where the broker sets timestamps, they do not tell a batch that is sent again.
        known = producers.check(produced.header, guard, log_start_offset if log_append_time_ms < 0 else 0)
        if known is not None:
            return ClientsBatch(records, known)
    if not isinstance(check, CheckedBatch):
        records = to_stored_batch(records, produced, config, log_append_time_ms)
    return ClientsBatch(records, None)


def check_in_thread(
    records: bytearray | memoryview,
    config: TopicConfig,
    *,
    now_ms: int,
    request_version: int,
    budget: DecompressionBudget,
) -> CheckedBatch:
    """Check and convert a client's batch as far as its log is not needed; may change `records`. KafkaError as `validate_produced`."""
    if request_version < _BATCHES_ONLY_FROM and is_message_set(records):
        records = _rewritten(records, at_once=False)
    produced = validate_produced(records, config, now_ms, request_version, budget)
    log_append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else -1
    stored = to_stored_batch(_without_rest(records, produced), produced, config, log_append_time_ms)
    magic = message_format.stored_magic(config)
    return CheckedBatch(
        stored, produced, None if magic == MAGIC else message_format.convert_batch(stored, magic, 0, plain=not magic)
    )


def _without_rest(records: bytearray | memoryview, produced: ProducedBatch) -> bytearray | memoryview:
    """Return the batch without what lies cut behind it."""
    size = produced.header.batch_length + LOG_OVERHEAD
    return records if len(records) == size else records[:size]


def _rewritten(messages: bytearray | memoryview, at_once: bool) -> bytearray:
    if not at_once:
        return to_record_batch(messages)
    if len(messages) > _MESSAGE_BYTES_AT_ONCE:
        raise TooMuchAtOnce
    try:
        return to_record_batch(messages, _MESSAGE_BYTES_AT_ONCE)
    except DecompressedTooLarge:
        raise TooMuchAtOnce from None


def check_size(records: Buffer, config: TopicConfig) -> None:
    """Raise KafkaError RECORD_LIST_TOO_LARGE for more bytes than a segment may have."""
    if len(records) > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} bytes where the topic's segment.bytes is {config.segment_bytes}",
        )


def own_batches(
    records: bytearray | memoryview,
    producers: ProducerState,
    log_append_time_ms: int,
    guard: VerificationGuard = UNGUARDED,
) -> list[int]:
    """Return the positions of batches that the broker made, whose timestamps become `log_append_time_ms` unless that is -1.

    Raises KafkaError when their producer was fenced, when they begin a transaction without the guard for it, or are cut.
    """
    headers = list(iter_batches(records))
    if not headers or headers[-1].end != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no whole batches")
    for header in headers:
        if header.producer_id >= 0:
            marker = read_marker(records, header) if header.is_control else None
            if marker is not None:
                producers.check_marker(header, marker)
            else:
                producers.check_own(header, guard)
    if log_append_time_ms >= 0:
        for header in headers:
            set_max_timestamp_in_place(records, header, log_append_time_ms, log_append_time=True)
    return [each.position for each in headers]


def adopt_copy(records: bytearray, log_end_offset: int, expected_end: int, leader_epoch: int) -> None:
    """Set this leader's epoch in batches of another cluster, which keep their offsets.

    Raises KafkaError OFFSET_OUT_OF_RANGE unless the log ends where it is expected to and they begin at or behind it,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for formats before 2, CORRUPT_MESSAGE as `iter_batches`.
    """
    headers = list(iter_batches(records))
    if log_end_offset != expected_end or (headers and headers[0].base_offset < log_end_offset):
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the log ends at offset {log_end_offset}")
    if any(header.magic != MAGIC for header in headers):
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "copies are of format 2")
    for header in headers:
        set_offset_and_epoch_in_place(records, header.position, header.base_offset, leader_epoch)


def leaders_batches(
    records: Buffer, log_start_offset: int, log_end_offset: int, leader_epoch: int | None
) -> list[BatchHeader]:
    """Return the headers of the whole batches that a leader sent; one cut at the end is left out.

    An empty log takes a first batch that begins before its end and reaches beyond it: the leader's log starts within that batch, up to
    which records were deleted (as Kafka's Partition.appendRecordsToFollowerOrFutureReplica, KAFKA-6361).

    Batches of a later epoch than `leader_epoch` are refused, because the log may have to be truncated before it takes them
    (KAFKA-18723). It is None where the leader has confirmed the epoch, which Fetch before version 9 does not ask it for.

    Raises KafkaError CORRUPT_MESSAGE for a wrong CRC or offsets beyond 64 bits, OFFSET_OUT_OF_RANGE when they do not begin at or
    behind the log end or overlap, FENCED_LEADER_EPOCH for a later epoch.
    """
    headers = list(iter_batches(records))
    expected = log_end_offset
    if headers and log_start_offset == log_end_offset < headers[0].next_offset:
        expected = min(expected, headers[0].base_offset)
    for header in headers:
        if not has_valid_crc(records, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong CRC at offset {header.base_offset}")
        if header.next_offset > LONG_MAX:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch that ends at offset {header.next_offset}")
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"a batch from {header.base_offset} where {expected} is the next offset"
            )
        expected = header.next_offset
    if headers and leader_epoch is not None and headers[-1].partition_leader_epoch > leader_epoch:
        sent = headers[-1].partition_leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"a batch of leader epoch {sent} came in epoch {leader_epoch}")
    return headers

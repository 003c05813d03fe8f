"""The stored form of a checked batch: the topic's codec and timestamps, its place in the log."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import CODEC_OF_NAME, Codec
from kafkalite.protocol.record_batches.produce_validation import ProducedBatch
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    recompress,
    set_max_timestamp_in_place,
    set_offset_and_epoch_in_place,
)


def to_stored_batch(
    records: bytearray | memoryview, produced: ProducedBatch, config: TopicConfig, log_append_time_ms: int
) -> bytearray | memoryview:
    """Return the batch with the codec of compression.type and the right largest timestamp, changed in place where possible.

    `log_append_time_ms` is -1 for topics with CreateTime; for others it replaces the timestamps of all records.
    Raises KafkaError MESSAGE_TOO_LARGE when another codec makes the batch larger than max.message.bytes, UNSUPPORTED_COMPRESSION_TYPE
    for zstd that older brokers of the cluster cannot read.
    """
    header = produced.header
    codec = CODEC_OF_NAME.get(config.compression_type)
    if not config.may_store_zstd and (header.codec if codec is None else codec) == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs an inter.broker.protocol.version of 2.1 or newer"
        )
    if codec is not None and codec != header.codec:
        records = recompress(records, header, codec, _level(codec, config), config.max_message_bytes)
        header = BatchHeader.read(records)
    if log_append_time_ms >= 0:
        set_max_timestamp_in_place(records, header, log_append_time_ms, log_append_time=True)
    elif produced.max_timestamp != header.max_timestamp:
        set_max_timestamp_in_place(records, header, produced.max_timestamp, log_append_time=False)
    return records


def assign_offsets(
    records: bytearray | memoryview, positions: Sequence[int], first_offset: int, leader_epoch: int
) -> list[BatchHeader]:
    """Give the batches at `positions` consecutive offsets from `first_offset` on; returns their headers as they are then."""
    headers = []
    offset = first_offset
    for position in positions:
        set_offset_and_epoch_in_place(records, position, offset, leader_epoch)
        header = BatchHeader.read(records, position)
        headers.append(header)
        offset = header.next_offset
    return headers


def _level(codec: Codec, config: TopicConfig) -> int | None:
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
    return None

"""Records between Python objects and batches, through aiokafka's compiled codec.

The compiled code packs and unpacks single records, 0.2 to 0.7 µs each. What is around them (header, CRC-32C, compression) is
`kafkalite.protocol.records`', which has the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from kafkalite.client.errors import ClientError, error_of
from kafkalite.client.records import CREATE_TIME, LOG_APPEND_TIME, ConsumerRecordDraft, Header
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.compression import compress
from kafkalite.protocol.records import CODEC_MASK, HEADER_SIZE, BatchHeader, assemble_batch, records_of
from kafkalite.types import Buffer

RECORD_OVERHEAD_BYTES = 31
"""The most that a record takes beside the contents of key, value and headers."""


def record_bytes_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """At least as many bytes as the record will take in a batch, without compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


class BatchWriter:
    """A batch under construction. Appends until `target_bytes` are full; the first record always fits."""

    __slots__ = ("_builder", "record_count", "size_bytes")

    def __init__(self, target_bytes: int) -> None:
        self._builder: Any = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=target_bytes,
        )
        self.record_count = 0
        self.size_bytes = HEADER_SIZE

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
        """The bytes that the record took, or 0 when it does not fit any more. TypeError for what is not bytes."""
        taken = self._builder.append(self.record_count, timestamp, key, value, headers)
        if taken is None:
            return 0
        size: int = taken.size
        self.record_count += 1
        self.size_bytes += size
        return size

    def build(self, codec: int, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> Buffer:
        """The finished batch, compressed with `codec` where that makes it smaller. The writer is spent."""
        builder, self._builder = self._builder, None
        builder.set_producer_state(producer_id, producer_epoch, base_sequence)
        batch: Buffer = builder.build()
        if codec:
            packed = compress(codec, memoryview(batch)[HEADER_SIZE:])
            if len(packed) < len(batch) - HEADER_SIZE:
                header = BatchHeader.read(batch)
                return reassembled(header, packed, attributes=header.attributes | codec)
        return batch


def reassembled(header: BatchHeader, body: Buffer, **changes: int) -> bytearray:
    """A batch of `header` with `changes` around `body`, with right length and CRC."""
    facts = {
        "records_count": header.records_count,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "base_offset": header.base_offset,
        "leader_epoch": header.partition_leader_epoch,
        "attributes": header.attributes,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
    return assemble_batch(body, **{**facts, **changes})


def with_producer_state(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    """The same batch under another producer id, epoch and sequence."""
    return reassembled(
        BatchHeader.read(batch),
        memoryview(batch)[HEADER_SIZE:],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def read_records(
    data: Buffer, header: BatchHeader, topic: str, partition: int, from_offset: int
) -> list[ConsumerRecordDraft]:
    """The records of the batch at `header` from `from_offset` on, with keys and values as bytes.

    ClientError, naming the partition, for what cannot be read: CORRUPT_MESSAGE, or the code of the failed decompression.
    """
    where = f"{topic}-{partition}: batch at offset {header.base_offset}"
    epoch = header.partition_leader_epoch
    draft = ConsumerRecordDraft
    try:
        if header.codec:
            plain: Any = reassembled(header, records_of(data, header), attributes=header.attributes & ~CODEC_MASK)
        else:
            plain = memoryview(data)[header.position : header.end]
        if header.uses_log_append_time:
            time = header.max_timestamp
            return [
                draft(topic, partition, r.offset, time, LOG_APPEND_TIME, r.key, r.value, r.headers, epoch)
                for r in DefaultRecordBatch(plain)
                if r.offset >= from_offset
            ]
        return [
            draft(topic, partition, r.offset, r.timestamp, CREATE_TIME, r.key, r.value, r.headers, epoch)
            for r in DefaultRecordBatch(plain)
            if r.offset >= from_offset
        ]
    except KafkaError as problem:
        raise error_of(problem.code, where, problem.message) from problem
    except (CorruptRecordException, ValueError, IndexError) as problem:
        raise ClientError(ErrorCode.CORRUPT_MESSAGE, f"{where} cannot be read: {problem}") from problem

"""Batches with fewer records: keys read by compiled code, and batches written again around the records that stay.

The records that stay are copied as bytes, because nothing in a record but its timestamp depends on the rest of its batch.
Only a new delete horizon, which takes the place of the base timestamp (KIP-534), has their timestamp deltas written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress as selected
from itertools import pairwise

from kafkalite.protocol.record_batches.compiled_records import DecodedRecord, decode_keys, decode_whole
from kafkalite.protocol.record_batches.compression import compress
from kafkalite.protocol.record_batches.legacy_records import legacy_records, rewrite_message
from kafkalite.protocol.record_batches.record_code import find_starts
from kafkalite.protocol.record_batches.records import (
    CODEC_MASK,
    DELETE_HORIZON,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    assemble_batch,
    records_of,
)
from kafkalite.protocol.record_batches.varint import read_varint, wrap_long, write_varint
from kafkalite.types import Buffer


class OpenBatch:
    """Decompressed records of the batch at `header` of `buffer`. Raises KafkaError INVALID_RECORD where they cannot be read."""

    def __init__(self, buffer: Buffer, header: BatchHeader) -> None:
        self.header = header
        self.plain = bytes(records_of(buffer, header))

    def keys(self) -> tuple[list[bytes | None], list[int]]:
        """Return the keys and offsets of the records. Raises KafkaError INVALID_RECORD."""
        return decode_keys(self.plain, self.header)

    def records(self) -> Sequence[DecodedRecord]:
        """Return the records with their offsets and timestamps. Raises KafkaError INVALID_RECORD."""
        return decode_whole(self.plain, self.header)

    def _encode(self, stays: Sequence[bool]) -> list[bytes]:
        plain = self.plain
        bounds = [*find_starts(plain, 0, len(plain), len(stays)), len(plain)]
        return [plain[start:end] for start, end in selected(pairwise(bounds), stays)]

    def rewrite(self, stays: Sequence[bool], max_timestamp: int, horizon_ms: int | None) -> bytearray:
        """Return the batch with the records that stay, and with a new delete horizon unless that is None; nothing else changes."""
        header = self.header
        parts = [self.plain] if horizon_ms is None and all(stays) else self._encode(stays)
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if horizon_ms is not None:
            shift = base_timestamp - horizon_ms
            parts = [_with_shifted_timestamp(part, shift) for part in parts]
            base_timestamp, attributes = horizon_ms, attributes | DELETE_HORIZON
        body = b"".join(parts)
        return assemble_batch(
            compress(header.codec, body) if header.codec else body,
            records_count=sum(stays),
            last_offset_delta=header.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=header.max_timestamp if header.uses_log_append_time else max_timestamp,
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            attributes=attributes,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )


class OpenMessage:
    """A message of an older format with its records, which keeps its magic. Raises KafkaError INVALID_RECORD."""

    def __init__(self, buffer: Buffer, header: BatchHeader) -> None:
        self.header = header
        self._records = legacy_records(buffer, header)

    def keys(self) -> tuple[list[bytes | None], list[int]]:
        return [record.key for record in self._records], [record.offset for record in self._records]

    def records(self) -> Sequence[DecodedRecord]:
        return self._records

    def rewrite(self, stays: Sequence[bool]) -> bytes:
        """Return the message around the records that stay."""
        return rewrite_message(list(selected(self._records, stays)), self.header)


def open_batch(buffer: Buffer, header: BatchHeader) -> OpenBatch | OpenMessage:
    """Return the batch or older message at `header` of `buffer`. Raises KafkaError INVALID_RECORD where its records cannot be read."""
    return OpenBatch(buffer, header) if header.magic == MAGIC else OpenMessage(buffer, header)


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header of a batch without its records, which still has offsets, producer and sequence numbers."""
    return assemble_batch(
        b"",
        records_count=0,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _with_shifted_timestamp(record: bytes, shift_ms: int) -> bytes:
    _, start = read_varint(record, 0)
    delta, rest = read_varint(record, start + 1)
    body = bytearray(record[start : start + 1])
    write_varint(body, wrap_long(delta + shift_ms))
    body += record[rest:]
    encoded = bytearray()
    write_varint(encoded, len(body))
    return bytes(encoded + body)

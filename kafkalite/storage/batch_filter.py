"""Batches with fewer records: keys read by compiled code, and batches written anew around the records that stay.

The records that stay are copied as bytes, because nothing in a record but its timestamp depends on the rest of its batch.
Only a new delete horizon, which takes the place of the base timestamp (KIP-534), has their timestamp deltas written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress as selected
from typing import Final, Protocol

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.compiled_check import compiled_decoder
from kafkalite.protocol.compression import compress
from kafkalite.protocol.records import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    assemble_batch,
    read_varint,
    records_of,
    write_varint,
)
from kafkalite.types import Buffer

_ATTRIBUTES: Final = slice(21, 23)


class DecodedRecord(Protocol):
    """A record as far as a decision about it needs; `timestamp` in ms."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


class OpenBatch:
    """The records of the batch at `header` of `buffer`, decompressed. Raises KafkaError INVALID_RECORD where they cannot be read."""

    def __init__(self, buffer: Buffer, header: BatchHeader) -> None:
        self.header = header
        self.plain = bytes(records_of(buffer, header))
        self._head = bytes(memoryview(buffer)[header.position : header.position + HEADER_SIZE])

    def keys(self) -> tuple[list[bytes | None], list[int]]:
        """Keys and offsets of the records."""
        records = self.records()
        return [record.key for record in records], [record.offset for record in records]

    def records(self) -> Sequence[DecodedRecord]:
        """The records with their offsets and timestamps. Raises KafkaError INVALID_RECORD."""
        header = self.header
        attributes = (header.attributes & ~CODEC_MASK).to_bytes(2, "big", signed=True)
        plain_batch = b"".join(
            (self._head[: _ATTRIBUTES.start], attributes, self._head[_ATTRIBUTES.stop :], self.plain)
        )
        record_batch, corrupt = compiled_decoder()
        try:
            records: list[DecodedRecord] = list(record_batch(plain_batch))
            return records
        except (corrupt, ValueError, IndexError):
            # Names of headers that are no UTF-8 are none of our business; anything else is refused by the exact reader.
            return list(_without_header_names(self.plain, header))

    def rewritten(self, stays: Sequence[bool], max_timestamp: int, horizon_ms: int | None) -> bytearray:
        """The batch with the records that stay, and with a new delete horizon unless that is None; nothing else changes."""
        header = self.header
        parts: Iterable[bytes] = selected(_encoded_records(self.plain, len(stays)), stays)
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


def emptied(header: BatchHeader) -> bytearray:
    """The header of a batch whose records are all gone: it still tells of offsets, producer and sequence numbers."""
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


def _encoded_records(data: bytes, count: int) -> list[bytes]:
    """The records as they lie in `data`, by their lengths alone."""
    parts = []
    position = 0
    for _ in range(count):
        start = position
        raw = data[position]
        position += 1
        if raw > 0x7F:
            more = data[position]
            if more > 0x7F:
                length, position = read_varint(data, position - 1)
                raw = 2 * length
            else:
                raw += (more << 7) - 0x80
                position += 1
        position += raw >> 1
        parts.append(data[start:position])
    return parts


def _with_shifted_timestamp(record: bytes, shift_ms: int) -> bytes:
    _, start = read_varint(record, 0)
    delta, rest = read_varint(record, start + 1)
    body = bytearray(record[start : start + 1])
    write_varint(body, delta + shift_ms)
    body += record[rest:]
    encoded = bytearray()
    write_varint(encoded, len(body))
    return bytes(encoded + body)


def _without_header_names(plain: bytes, header: BatchHeader) -> Iterable[Record]:
    """The records of plain data with their headers' bytes left alone. Raises KafkaError INVALID_RECORD."""
    try:
        for number, encoded in enumerate(_encoded_records(plain, header.records_count)):
            _, at = read_varint(encoded, 0)
            delta, at = read_varint(encoded, at + 1)
            offset_delta, at = read_varint(encoded, at)
            key_size, at = read_varint(encoded, at)
            key = encoded[at : at + key_size] if key_size >= 0 else None
            value_size, at = read_varint(encoded, at + max(key_size, 0))
            if len(encoded) < at + max(value_size, 0) or (key is not None and len(key) != key_size):
                raise ValueError(f"record {number} is cut")
            time = header.max_timestamp if header.uses_log_append_time else header.base_timestamp + delta
            yield Record(header.base_offset + offset_delta, time, key, b"" if value_size >= 0 else None)
    except (IndexError, ValueError) as problem:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"records cannot be read: {problem}") from None

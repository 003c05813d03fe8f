"""Snapshots of a log's producers: `<offset, 20 digits>.snapshot` tells of all batches before that offset.

    i16 version = 1, u32 CRC-32C of the bytes from 6 on, i32 count, then for each producer
    i64 producer id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp, i32 coordinator epoch,
    i64 first offset of the open transaction (-1 none)

Only the last batch of a producer is kept, so that after a restart only that one is recognised as a duplicate. A file with
another version or a wrong CRC is not used.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkalite.protocol.record_batches.checksum import crc32c
from kafkalite.storage.producers.producer_state import NO_OFFSET, ProducedRange, Producer

_VERSION: Final = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class UnusableSnapshot(ValueError):
    """A snapshot of an unknown version or with damaged bytes."""


def encode_snapshot(producers: list[Producer]) -> bytes:
    parts = [_COUNT.pack(len(producers))]
    for each in producers:
        last = each.batches[-1] if each.batches else None
        first = each.transaction_first_offset
        parts.append(
            _ENTRY.pack(
                each.producer_id,
                each.epoch,
                each.last_sequence,
                each.last_offset,
                last.offset_delta if last else 0,
                each.last_timestamp,
                each.coordinator_epoch,
                NO_OFFSET if first is None else first,
            )
        )
    body = b"".join(parts)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[Producer]:
    """Return the producers in a snapshot. Raises UnusableSnapshot."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise UnusableSnapshot(f"{len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise UnusableSnapshot(f"version {version}")
    (count,) = _COUNT.unpack_from(body)
    if crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
        raise UnusableSnapshot("its CRC or size does not fit its bytes")
    producers = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first = fields
        open_from = None if first == NO_OFFSET else first
        producers.append(Producer(producer_id, epoch, timestamp, coordinator_epoch, open_from))
        if last_offset >= 0:
            producers[-1].add_batch(ProducedRange(last_sequence, last_offset, offset_delta, timestamp))
    return producers

"""A produced batch of one record as most are, recognised in one look: what needs no other check and no change before it is stored.

It is no second place for the rules of `produce_validation`: a batch that is plain is one that is taken there as it is, and of any other
nothing is said here. Tests hold the two together.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkalite.protocol.record_batches.checksum import crc32c
from kafkalite.protocol.record_batches.record_walk import record_at
from kafkalite.protocol.record_batches.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qii")
_CHECKED_FROM: Final = 21
_LEAST_BYTES: Final = HEADER_SIZE + 7
_new: Final = tuple.__new__


class RecordLayout(NamedTuple):
    """Positions in a plain batch: another one of `size` bytes with its lengths in the same places has the same layout."""

    size: int
    """Bytes of the batch."""
    head: bytes
    """Length, attributes, deltas and the key's length."""
    middle_at: int
    """Position of the value's length, from the beginning of the batch on."""
    middle: bytes
    """The value's length."""
    timestamp_delta: int


def layout_of(data: bytes, begin: int, end: int) -> RecordLayout:
    """Return the layout of the plain batch in `data[begin:end]`."""
    first = begin + HEADER_SIZE
    delta, _, key, key_end, value, value_end, *_ = record_at(data, first)
    head, middle = data[first : key if key >= 0 else key_end], data[key_end : value if value >= 0 else value_end]
    return RecordLayout(end - begin, head, key_end - begin, middle, delta)


def plain_header(
    data: bytes, begin: int, end: int, position: int, like: RecordLayout | None = None
) -> BatchHeader | None:
    """Return the header of the batch in `data[begin:end]`, as one that lies at `position`; None unless it is plain.

    Plain is a batch of one uncompressed record outside of transactions whose CRC is right, whose parts add up, whose largest timestamp is
    that of its record, and which a producer numbered if it has an id. A record that may be `like` the one before is not walked through.
    """
    if end - begin < _LEAST_BYTES:
        return None
    header = _new(BatchHeader, (*_HEADER.unpack_from(data, begin), position))
    base, length, _, magic, crc, attributes, last, base_timestamp, max_timestamp, producer_id, _, sequence, count, _ = (
        header
    )
    if (
        base
        or length != end - begin - LOG_OVERHEAD
        or magic != MAGIC
        or attributes
        or last
        or count != 1
        or (producer_id >= 0 and sequence < 0)
        or crc32c(data[begin + _CHECKED_FROM : end]) != crc
    ):
        return None
    if (
        like is not None
        and like[0] == end - begin
        and data.startswith(like[1], begin + HEADER_SIZE)
        and data.startswith(like[3], begin + like[2])
        and not data[end - 1]  # no headers
    ):
        return header if base_timestamp + like[4] == max_timestamp else None
    try:
        delta, offset_delta, _, _, _, _, headers, _, record_end = record_at(data, begin + HEADER_SIZE)
    except (IndexError, ValueError):
        return None
    if offset_delta or headers or record_end != end or base_timestamp + delta != max_timestamp:
        return None
    return header


def put_plain(
    records: bytearray, headers: list[BatchHeader], first_offset: int, leader_epoch: int
) -> list[BatchHeader]:
    """Give the batches, whose headers these are, consecutive offsets from `first_offset` on; returns their headers as they are then."""
    placed, offset = [], first_offset
    for header in headers:
        _PLACE.pack_into(records, header[13], offset, header[1], leader_epoch)
        placed.append(_new(BatchHeader, (offset, header[1], leader_epoch, *header[3:])))
        offset += 1
    return placed

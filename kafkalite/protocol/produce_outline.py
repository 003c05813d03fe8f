"""The outline of a Produce request before it is decoded."""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from kafkalite.protocol.bounds import PLAIN_BYTES
from kafkalite.types import Buffer

_FIRST_VERSION: Final = 3
_FLEXIBLE_FROM: Final = 9
_SHORT: Final = Struct(">h")
_BEFORE_TOPIC: Final = Struct(">BhiBB")
"""In flexible versions: length of the transactional id, acks, timeout, topics, length of the name."""
_BEFORE_NAME_BYTES: Final = _BEFORE_TOPIC.size
_BEFORE_RECORDS: Final = Struct(">BiBBBB")
"""Partitions, index, and the length of the records, which has four bytes where they are many, or three and the first of them."""
_TO_RECORDS_BYTES: Final = _BEFORE_RECORDS.size - 1
_COUNT_AND_LENGTH: Final = Struct(">ih")
_COUNT_INDEX_LENGTH: Final = Struct(">iii")
_ACKS_AND_TIMEOUT_BYTES: Final = 6
_ONE_BYTE: Final = 127
"""Up to here an unsigned varint is one byte; longer ones in front of the records are not looked into."""


def one_batch_at(frame: Buffer, position: int, version: int) -> int:
    """Return the position of the first partition's records if they are all but `PLAIN_BYTES` of the request, else 0.

    Such a request names no more than a short one could. `position` is that of the request's body.
    """
    if version < _FIRST_VERSION:
        return 0
    try:
        if version >= _FLEXIBLE_FROM:
            size = frame[position]
            if size > 1:
                position += size - 1
            _, _, _, topics, name = _BEFORE_TOPIC.unpack_from(frame, position)
            position += _BEFORE_NAME_BYTES
            if name > 1:
                position += name - 1
            partitions, _, first, second, third, fourth = _BEFORE_RECORDS.unpack_from(frame, position)
            if size > _ONE_BYTE or topics > _ONE_BYTE or name > _ONE_BYTE or partitions > _ONE_BYTE:
                return 0
            size = (first & _ONE_BYTE | (second & _ONE_BYTE) << 7 | (third & _ONE_BYTE) << 14) - 1
            position += _TO_RECORDS_BYTES
            if third > _ONE_BYTE:
                if fourth > _ONE_BYTE:
                    return 0
                size += fourth << 21
                position += 1
            if first <= _ONE_BYTE or second <= _ONE_BYTE:
                return 0
            topics, partitions = topics - 1, partitions - 1
        else:
            (size,) = _SHORT.unpack_from(frame, position)
            position += 2 + max(0, size) + _ACKS_AND_TIMEOUT_BYTES
            topics, size = _COUNT_AND_LENGTH.unpack_from(frame, position)
            position += 6 + max(0, size)
            partitions, _, size = _COUNT_INDEX_LENGTH.unpack_from(frame, position)
            position += 12
    except (error, IndexError):
        return 0
    return position if topics > 0 < partitions and len(frame) - PLAIN_BYTES <= size <= len(frame) - position else 0

"""What can be said of a Produce request before it is decoded."""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from kafkalite.protocol.bounds import PLAIN_BYTES
from kafkalite.protocol.reader_source import read_uvarint
from kafkalite.types import Buffer

_FIRST_VERSION: Final = 3
_FLEXIBLE_FROM: Final = 9
_SHORT: Final = Struct(">h")
_COUNT_AND_LENGTH: Final = Struct(">ih")
_COUNT_INDEX_LENGTH: Final = Struct(">iii")
_ACKS_AND_TIMEOUT_BYTES: Final = 6
_INDEX_BYTES: Final = 4
_ONE_BYTE: Final = 127
"""Up to here an unsigned varint is one byte; longer ones in front of the records are not looked into."""


def is_mostly_one_batch(frame: Buffer, position: int, version: int) -> bool:
    """Are the records of the first partition all but `PLAIN_BYTES` of the request? Then it names no more than a short one could.

    `position` is that of the request's body. False where that is not known, and for what is no such request.
    """
    if version < _FIRST_VERSION:
        return False
    try:
        if version >= _FLEXIBLE_FROM:
            size = frame[position]
            position += max(1, size) + _ACKS_AND_TIMEOUT_BYTES
            topics, name = frame[position], frame[position + 1]
            position += 1 + max(1, name)
            partitions = frame[position]
            if size > _ONE_BYTE or topics > _ONE_BYTE or name > _ONE_BYTE or partitions > _ONE_BYTE:
                return False
            size, position = read_uvarint(frame, position + 1 + _INDEX_BYTES)
            size, topics, partitions = size - 1, topics - 1, partitions - 1
        else:
            (size,) = _SHORT.unpack_from(frame, position)
            position += 2 + max(0, size) + _ACKS_AND_TIMEOUT_BYTES
            topics, size = _COUNT_AND_LENGTH.unpack_from(frame, position)
            position += 6 + max(0, size)
            partitions, _, size = _COUNT_INDEX_LENGTH.unpack_from(frame, position)
            position += 12
    except (error, IndexError):
        return False
    return topics > 0 < partitions and len(frame) - PLAIN_BYTES <= size <= len(frame) - position

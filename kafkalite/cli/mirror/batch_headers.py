"""Reads the headers of the batches in a fetch response, and nothing else of them. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkalite.types import Buffer

_LENGTH: Final = Struct(">i")
_PRODUCER_ID: Final = Struct(">q")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_PRODUCER_ID_AT: Final = 43
_LOG_OVERHEAD: Final = 12
_HEADER_BYTES: Final = 61
_MAGIC: Final = 2


def read_headers(records: Buffer) -> tuple[bool, int]:
    """Return whether a batch is of a format before 2 (0.11), and the highest producer id, or -1. The last batch may be cut."""
    position, end, highest = 0, len(records), -1
    while position + _MAGIC_AT < end:
        if records[position + _MAGIC_AT] != _MAGIC:
            return True, highest
        if position + _HEADER_BYTES > end:
            break
        (producer_id,) = _PRODUCER_ID.unpack_from(records, position + _PRODUCER_ID_AT)
        highest = max(highest, producer_id)
        (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
        position += _LOG_OVERHEAD + max(length, _HEADER_BYTES - _LOG_OVERHEAD)
    return False, highest

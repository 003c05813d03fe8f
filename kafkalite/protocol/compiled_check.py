"""Are records well formed? The answer of aiokafka's compiled decoder, six times as fast as a loop, for where it is surely right.

The decoder checks that lengths are within the data and add up, and that nothing is left behind the last record. What it does not do,
or does in another way than `record_check`'s loop, must not decide anything: the answer is None then, and the loop has the word.

- Its varints wrap at 64 bits and may be read ten bytes past the end: it gets a copy with room behind it, and timestamps near
  the limits count for nothing.
- Names of headers must be UTF-8 for it; on the wire they are bytes.
- A length near 2**63 makes it ask for that much memory, which is refused: MemoryError or OverflowError, not a crash.

aiokafka's package takes 0.2 s to import, so a broker that starts does not wait for it: `preload` brings it in afterwards.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import chain, islice
from typing import Any, Final, NamedTuple

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_ROOM_BYTES: Final = 16
_RECORDS_AT_ONCE: Final = 512
_TIMESTAMP_DELTA_LIMIT: Final = 1 << 62


class CheckedRecords(NamedTuple):
    """What well-formed records with offset deltas 0, 1, 2 ... have: timestamp deltas in ms, and whether all have a key."""

    smallest: int
    largest: int
    all_have_keys: bool


@cache
def compiled_decoder() -> tuple[Any, type[Exception]]:
    """aiokafka's record batch, to be made of a whole plain batch and iterated once, and what it raises."""
    from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]
    from aiokafka.record.default_records import DefaultRecordBatch  # type: ignore[import-untyped]

    return DefaultRecordBatch, CorruptRecordException


def preload() -> None:
    """Import the decoder; may be called in another thread."""
    compiled_decoder()


def check_compiled(data: bytes | bytearray | memoryview, count: int) -> CheckedRecords | None:
    """The facts of `count` well-formed records that fill `data`; None when they may be otherwise."""
    record_batch, corrupt = compiled_decoder()
    size = _HEADER.size + len(data)
    buffer = bytearray(size + _ROOM_BYTES)
    _HEADER.pack_into(buffer, 0, 0, size - 12, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    buffer[_HEADER.size : size] = data
    smallest, largest, all_have_keys = _TIMESTAMP_DELTA_LIMIT, -_TIMESTAMP_DELTA_LIMIT, True
    done = 0
    try:
        batch = chain(record_batch(memoryview(buffer)[:size]))  # which itself can be asked for an iterator once
        while records := list(islice(batch, _RECORDS_AT_ONCE)):
            if [record.offset for record in records] != list(range(done, done + len(records))):
                return None
            timestamps = [record.timestamp for record in records]
            smallest, largest = min(smallest, *timestamps), max(largest, *timestamps)
            all_have_keys = all_have_keys and None not in [record.key for record in records]
            done += len(records)
    except (corrupt, ValueError, IndexError, MemoryError, OverflowError):
        return None
    if done != count or not -_TIMESTAMP_DELTA_LIMIT < smallest <= largest < _TIMESTAMP_DELTA_LIMIT:
        return None
    return CheckedRecords(smallest, largest, all_have_keys)

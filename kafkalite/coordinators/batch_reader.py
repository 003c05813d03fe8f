"""The records of a batch as a coordinator loads them: key and value, nothing else.

Loading is bound by this loop, so it reads varints of one and two bytes in line and skips what coordinators do not use.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.coordinators.contract import LogRecord
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.records import BatchHeader, read_varint, records_of
from kafkalite.types import Buffer


def read_batch(buffer: Buffer, header: BatchHeader, producer_id: int = -1) -> Iterator[LogRecord]:
    """The records that have a key. KafkaError CORRUPT_MESSAGE where they cannot be read."""
    data = bytes(records_of(buffer, header))
    base_offset, position = header.base_offset, 0
    try:
        for _ in range(header.records_count):
            length = data[position]
            if length > 0x7F:
                size, start = read_varint(data, position)
            else:
                size, start = length >> 1, position + 1
            position = start + size
            at = start + 1
            while data[at] > 0x7F:  # timestamp delta
                at += 1
            raw = data[at + 1]
            if raw > 0x7F:
                offset_delta, at = read_varint(data, at + 1)
            else:
                offset_delta, at = raw >> 1, at + 2
            raw = data[at]
            if raw > 0x7F:
                key_size, at = read_varint(data, at)
            else:
                key_size, at = (raw >> 1) ^ -(raw & 1), at + 1
            if key_size < 0:
                continue
            key_end = at + key_size
            key = data[at:key_end]
            raw = data[key_end]
            if raw > 0x7F:
                value_size, at = read_varint(data, key_end)
            else:
                value_size, at = (raw >> 1) ^ -(raw & 1), key_end + 1
            if at + max(value_size, 0) > position or position > len(data):
                raise ValueError(f"a record at byte {start} is longer than it says")
            yield LogRecord(
                base_offset + offset_delta, key, None if value_size < 0 else data[at : at + value_size], producer_id
            )
    except (IndexError, ValueError) as problem:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} cannot be read: {problem}"
        ) from None

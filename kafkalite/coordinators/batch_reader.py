"""Reading the keys and values of batches, for loading a coordinator."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.coordinators.contract import LogRecord
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.legacy_records import legacy_records
from kafkalite.protocol.record_batches.record_walk import record_at
from kafkalite.protocol.record_batches.records import MAGIC, BatchHeader, records_of
from kafkalite.types import Buffer


def read_batch(buffer: Buffer, header: BatchHeader, producer_id: int = -1) -> Iterator[LogRecord]:
    """Yield the records with a key, also those of message formats before 0.11.

    Raises KafkaError CORRUPT_MESSAGE, and those of `legacy_records`.
    """
    if header.magic != MAGIC:
        for record in legacy_records(buffer, header):
            if record.key is not None:
                yield LogRecord(record.offset, record.key, record.value, producer_id)
        return
    data = bytes(records_of(buffer, header))
    base_offset, position = header.base_offset, 0
    try:
        for _ in range(header.records_count):
            _, offset_delta, key, key_end, value, value_end, _, _, position = record_at(data, position)
            if key >= 0:
                content = data[value:value_end] if value >= 0 else None
                yield LogRecord(base_offset + offset_delta, data[key:key_end], content, producer_id)
    except (IndexError, ValueError) as problem:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is unreadable: {problem}"
        ) from None

"""What is checked of batches that do not come from a client: the broker's own, and those a follower has from its leader."""

from __future__ import annotations

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.records import BatchHeader, has_valid_crc, iter_batches, read_marker
from kafkalite.storage.producer_state import ProducerState
from kafkalite.types import Buffer


def own_batches(records: Buffer, producers: ProducerState) -> list[BatchHeader]:
    """The headers of batches that the broker made. Raises KafkaError when their producer was fenced, or they are cut."""
    headers = list(iter_batches(records))
    if not headers or headers[-1].end != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no whole batches")
    for header in headers:
        if header.producer_id >= 0:
            marker = read_marker(records, header) if header.is_control else None
            if marker is not None:
                producers.check_marker(header, marker)
            else:
                producers.check_epoch(header)
    return headers


def leaders_batches(records: Buffer, log_end_offset: int) -> list[BatchHeader]:
    """The headers of the whole batches that a leader sent; one cut at the end is left out.

    Raises KafkaError CORRUPT_MESSAGE for a wrong CRC, OFFSET_OUT_OF_RANGE when they do not begin at or behind the log end or
    overlap.
    """
    headers = list(iter_batches(records))
    expected = log_end_offset
    for header in headers:
        if not has_valid_crc(records, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong CRC at offset {header.base_offset}")
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"a batch from {header.base_offset} where {expected} is the next offset"
            )
        expected = header.next_offset
    return headers

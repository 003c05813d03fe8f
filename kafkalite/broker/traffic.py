"""Counts of what went in and out, by topic, for metrics and status pages.

Counted once for each partition of a request. A producer's append says how many records it had, a read of the log does not: what leaves is
looked at batch by batch, 0.2 µs each; a message of an older format counts as one record, whatever it wraps. Of many small batches
only the first are, and the rest is taken to be alike, so that a consumer that catches up costs no more for being counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkalite.types import Buffer

_HEADER: Final = struct.Struct(">8xi4xb4xh34xi")
"""Fields of a batch of format 2: length, magic, attributes, number of records."""
_LENGTH_END: Final = 12
_MAGIC: Final = 2
_CONTROL: Final = 0x20
BATCHES_COUNTED: Final = 100


def count_records(batches: Buffer, size_bytes: int | None = None) -> int:
    """Return the number of records in whole batches, exact up to BATCHES_COUNTED batches and an estimate beyond.

    A batch that is cut at the end, and markers of transactions, do not count. Of `size_bytes` only the first may be known: `batches`.
    """
    unpack, known_end = _HEADER.unpack_from, len(batches)
    end = known_end if size_bytes is None else size_bytes
    position = records = 0
    for _ in range(BATCHES_COUNTED):
        if position + _HEADER.size > known_end:
            return records if known_end == end else records * end // position
        length, magic, attributes, count = unpack(batches, position)
        position += length + _LENGTH_END
        if magic != _MAGIC or length < _HEADER.size - _LENGTH_END or position > end:
            if magic not in (0, 1) or length <= 0 or position > end:
                return records
            records += 1
            continue
        if not attributes & _CONTROL:
            records += count
    return records * end // position


@dataclass(slots=True)
class TopicTraffic:
    """One topic's bytes and records since the broker started, without what followers fetch."""

    bytes_in: int = 0
    records_in: int = 0
    bytes_out: int = 0
    records_out: int = 0


class Traffic:
    """Bytes and records in and out by topic, since the broker started."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.replication_bytes_out = 0
        """Sent to followers; what this broker's own fetchers took in, they count."""

    def count_produced(self, topic: str, size_bytes: int, records: int) -> None:
        found = self.topics.get(topic) or self._add_topic(topic)
        found.bytes_in += size_bytes
        found.records_in += records

    def count_fetched(self, topic: str, batches: Buffer, size_bytes: int) -> None:
        """Count batches of `size_bytes` that are sent to a consumer and begin with these."""
        found = self.topics.get(topic) or self._add_topic(topic)
        found.bytes_out += size_bytes
        found.records_out += count_records(batches, size_bytes)

    def forget(self, topics: Iterable[str]) -> None:
        """Drop the counts of deleted topics."""
        for topic in topics:
            self.topics.pop(topic, None)

    def _add_topic(self, topic: str) -> TopicTraffic:
        made = self.topics[topic] = TopicTraffic()
        return made

"""A cache of down-converted record batches, for consumers with Fetch 0 to 3 that read the same log."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from kafkalite.protocol.record_batches.down_conversion import ConvertedBatches
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import TopicPartition


class ConversionCache:
    """The batches that were converted last, up to `limit_bytes`; so few that they fit into the processor's cache.

    Used by one thread at a time.
    """

    _ENTRY_BYTES: Final = 300
    """Memory of an entry without its messages."""

    def __init__(self, limit_bytes: int = 4 * 1024 * 1024) -> None:
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[tuple[TopicPartition, int, int, int, int], bytes] = OrderedDict()
        self.size_bytes = 0
        self.hits = self.misses = 0

    def of(self, topic_partition: TopicPartition) -> ConvertedBatches:
        """Return the view of one partition."""
        return _PartitionView(self, topic_partition)

    def get(self, key: tuple[TopicPartition, int, int, int, int]) -> bytes | None:
        converted = self._entries.get(key)
        if converted is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return converted

    def put(self, key: tuple[TopicPartition, int, int, int, int], converted: bytes) -> None:
        size = len(converted) + self._ENTRY_BYTES
        if key in self._entries or size > self._limit_bytes // 4:
            return
        self._entries[key] = converted
        self.size_bytes += size
        while self.size_bytes > self._limit_bytes:
            _, dropped = self._entries.popitem(last=False)
            self.size_bytes -= len(dropped) + self._ENTRY_BYTES


class _PartitionView(NamedTuple):
    """Converted batches by offset, length and CRC: compaction, or another leader, puts others in their place."""

    cache: ConversionCache
    topic_partition: TopicPartition

    def get(self, header: BatchHeader, magic: int) -> bytes | None:
        return self.cache.get((self.topic_partition, header.base_offset, header.batch_length, header.crc, magic))

    def put(self, header: BatchHeader, magic: int, converted: bytes) -> None:
        self.cache.put((self.topic_partition, header.base_offset, header.batch_length, header.crc, magic), converted)

"""Batches of several producers that are appended to one partition together: those that the log would accept as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.plain_batch import plain_header
from kafkalite.protocol.record_batches.records import MAGIC, SEQUENCE_LIMIT, BatchHeader
from kafkalite.storage.log.message_format import stored_magic
from kafkalite.storage.producers.verification import NO_TRANSACTION

if TYPE_CHECKING:
    from kafkalite.broker.produce.request_template import RequestTemplate
    from kafkalite.broker.replication.partition import Partition

_STORED_AS_SENT: Final = frozenset({"producer", "uncompressed"})


class PartitionBatches:
    """Batches that one event-loop turn appends to one partition in one write."""

    __slots__ = (
        "earliest",
        "headers",
        "latest",
        "log_start_offset",
        "max_bytes",
        "numbers",
        "partition",
        "producers",
        "records",
        "segment_bytes",
    )

    def __init__(self, partition: Partition, wall_ms: int) -> None:
        config = partition.log.config
        before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        self.partition = partition
        self.earliest, self.latest = wall_ms - before, wall_ms + after
        self.max_bytes, self.segment_bytes = config.max_message_bytes, config.segment_bytes
        self.records = bytearray()
        self.headers: list[BatchHeader] = []
        self.numbers: list[int] = []
        self.log_start_offset = -1
        """Log start offset as of the append."""
        self.producers: dict[int, BatchHeader] = {}
        """The last batch of each producer that has an id."""

    def add(self, number: int, template: RequestTemplate, frame: bytes, begin: int) -> bool:
        """Add the batch of request `number`; False if it might be refused, and has to be served as any other."""
        end = len(frame) - template.tail_bytes
        size, position = end - begin, len(self.records)
        layout = template.layouts.get(size)
        header = plain_header(frame, begin, end, position, layout)
        if (
            header is None
            or size > self.max_bytes
            or position + size > self.segment_bytes
            or not self.earliest <= header.max_timestamp <= self.latest
            or (template.acks == -1 and len(self.partition.isr) < self.partition.effective_min_isr)
            or (header.producer_id >= 0 and not self._is_next(header))
        ):
            return False
        self.headers.append(header)
        self.numbers.append(number)
        self.records += frame[begin:end]
        if layout is None:
            template.note_layout(frame, begin, end)
        return True

    def _is_next(self, header: BatchHeader) -> bool:
        """True if the batch is new, and has the sequence number that its producer should send now."""
        before = self.producers.get(header.producer_id)
        if before is not None:  # it is not appended yet
            follows = (before.base_sequence + 1) % SEQUENCE_LIMIT
            is_next = header.producer_epoch == before.producer_epoch and header.base_sequence == follows
        else:
            try:
                is_next = self.partition.log.producers.check(header, NO_TRANSACTION) is None
            except KafkaError:
                is_next = False
        if is_next:
            self.producers[header.producer_id] = header
        return is_next


def open_batches(partition: Partition | None, wall_ms: int) -> PartitionBatches | None:
    """Return room for batches that are appended to the partition as they are; None if its topic changes or refuses records."""
    if partition is None or not partition.is_leader:
        return None
    config = partition.log.config
    is_as_sent = (
        config.compression_type in _STORED_AS_SENT
        and config.message_timestamp_type == "CreateTime"
        and not config.compacts
        and not (config.message_format_acts and stored_magic(config) != MAGIC)
    )
    return PartitionBatches(partition, wall_ms) if is_as_sent else None

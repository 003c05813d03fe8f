"""Records that wait between the threads that send and the loop, and their way into batches, many at a time.

Most records go where the one before them went. These are taken together (`add_queued`); nothing is looked up again for one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kafkalite.client.producer.accumulator import Batch
from kafkalite.client.producer.deliveries import Delivery, OnDelivery, callback_for
from kafkalite.client.producer.producer import Producer
from kafkalite.client.records import Header

QueuedRecord = tuple[
    Delivery,
    str,
    bytes | None,
    bytes | None,
    int | None,
    int | None,
    Sequence[Header] | None,
    OnDelivery | None,
]
"""Delivery, topic, value, key, partition, timestamp, headers and callback: the arguments of `Producer.try_append`."""

RECORD_BYTES: Final = 400
"""What the objects of a record take in the queue, beside the contents of key, value and headers."""


def headers_bytes(headers: Sequence[Header]) -> int:
    """Return what headers take in the queue."""
    return sum(RECORD_BYTES + len(name) + len(content or b"") for name, content in headers)


class RecordQueue:
    """A queue of `records`, of which other threads count `sent_bytes` before they add one, and the loop `taken_bytes`.

    Both only grow, and each is changed by one side, so no lock is needed. Several threads that send may lose a count among them; the counts
    agree again when the queue is empty.
    """

    __slots__ = ("records", "sent_bytes", "taken_bytes")

    def __init__(self) -> None:
        self.records: deque[QueuedRecord] = deque()
        self.sent_bytes = 0
        self.taken_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait."""
        return max(self.sent_bytes - self.taken_bytes, 0)

    def take_first(self) -> QueuedRecord:
        """Remove the first record."""
        record = self.records.popleft()
        _, _, value, key, _, _, headers, _ = record
        self.taken_bytes += RECORD_BYTES + len(key or b"") + len(value or b"") + headers_bytes(headers or ())
        return record

    def append_to(self, core: Producer) -> None:
        """Put records into their batches, until one is full (`crowded`) or something must be awaited first.

        Raises what `Producer.try_append` raises; the record is the first one then.
        """
        records = self.records
        while records and not core.crowded:
            if not core.try_append(*records[0]):
                return
            delivery, topic, _, _, partition, *_ = self.take_first()
            if partition is not None and records:
                self._append_alike(core, topic, partition, delivery.batch)

    def _append_alike(self, core: Producer, topic: str, partition: int, batch: Batch) -> None:
        """Put records of this partition into its open batch, as long as such come, and fit."""
        added, content_bytes = batch.writer.add_queued(
            self.records, topic, partition, core._clock.now_ms(), batch, callback_for
        )
        self.taken_bytes += added * RECORD_BYTES + content_bytes
